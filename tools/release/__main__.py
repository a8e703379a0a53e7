"""`python -m release`: make a release into a folder, or write its version into every file."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.images.platforms import PLATFORMS
from release import artifacts
from release.versions import version, write_version


def main() -> None:
    """Make what the arguments name."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="make wheels, chart, bills of materials, checksums, and perhaps images")
    make.add_argument("--out", type=Path, required=True, help="folder; what is in it is deleted")
    make.add_argument("--cyclonedx", type=Path, required=True, help="the program cyclonedx-py")
    make.add_argument("--images", action="store_true", help="also the images, for this machine's architecture")
    images = commands.add_parser("images", help="build the images, with their bills of materials and provenance")
    images.add_argument("--out", type=Path, required=True, help="folder for what describes them")
    images.add_argument("--cyclonedx", type=Path, required=True, help="the program cyclonedx-py")
    images.add_argument("--platform", choices=PLATFORMS, help="default: this machine's")
    write = commands.add_parser("version", help="write the version everywhere")
    write.add_argument("number")
    arguments = parser.parse_args()
    try:
        if arguments.command == "version":
            write_version(arguments.number)
        elif arguments.command == "images":
            _images(arguments.out.resolve(), arguments.cyclonedx, (arguments.platform or "").removeprefix("linux/"))
        else:
            _make(arguments.out.resolve(), arguments.cyclonedx, images=arguments.images)
    except (ValueError, ClusterError) as error:
        sys.exit(f"error: {error}")


def _images(out: Path, cyclonedx: Path, architecture: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for image in artifacts.build_images(out, architecture):
        sys.stdout.write(f"{image.local}\n")
    artifacts.make_bills_of_materials(out, cyclonedx)


def _make(out: Path, cyclonedx: Path, *, images: bool) -> None:
    number = version()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    artifacts.make_wheels(out)
    artifacts.make_chart(out)
    artifacts.make_bills_of_materials(out, cyclonedx)
    if images:
        artifacts.make_images(out, number)
    artifacts.write_sums(out)
    sys.stdout.write("".join(f"{file.stat().st_size:>12,}  {file.name}\n" for file in sorted(out.iterdir())))


if __name__ == "__main__":
    main()
