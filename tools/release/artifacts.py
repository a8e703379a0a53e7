"""The files of a release: wheels, the chart, what each image is made of, images, and their checksums."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Final

import yaml

from devcluster.binaries import find_tool
from devcluster.commands import run
from devcluster.images.platforms import native
from devcluster.images.project import TARGETS, Image, builder
from devservers.locations import PROJECT_ROOT
from release.oci import write_chart_archive
from release.provenance import write_provenance

SUMS: Final = "SHA256SUMS"
_CHART: Final = PROJECT_ROOT / "charts" / "bucketingest"
# The image's name, and the locked packages and the project that it is made of.
_IMAGES: Final = {"job": "sparkjob", "operator": "operator"}
_MAVEN_PLUGIN: Final = "org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom"


def make_wheels(out: Path) -> None:
    """Wheels of job and operator; two builds of one commit give the same bytes."""
    when = run(["git", "log", "-1", "--format=%ct"], folder=PROJECT_ROOT).strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": when}
    for project in _IMAGES.values():
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
        run(command, folder=PROJECT_ROOT / project, environment=environment)


def make_chart(out: Path) -> None:
    """The chart as `helm package` makes it, and as an OCI artifact."""
    metadata = yaml.safe_load((_CHART / "Chart.yaml").read_text())
    run([find_tool("helm"), "package", _CHART, "--destination", out])
    name = f"{metadata['name']}-{metadata['version']}"
    write_chart_archive(out / f"{name}.tgz", metadata, out / f"{name}-chart.oci.tar")


def make_bills_of_materials(out: Path, cyclonedx: Path) -> None:
    """Which packages each image has, as CycloneDX: Python's with the hashes that are installed, and the job's jars."""
    for image, project in _IMAGES.items():
        requirements = PROJECT_ROOT / "requirements" / f"{image}.txt"
        about = PROJECT_ROOT / project / "pyproject.toml"
        file = out / f"bucketingest-{image}.python.cdx.json"
        options: list[str | Path] = [
            "--pyproject",
            about,
            "--output-format",
            "JSON",
            "--output-reproducible",
            "-o",
            file,
        ]
        run([cyclonedx, "requirements", requirements, *options])
    name = "bucketingest-job.java.cdx"
    where = [f"-DoutputDirectory={out}", f"-DoutputName={name}", "-DoutputFormat=json", "-DoutputReactorProjects=false"]
    run(["mvn", "-B", "-q", "-f", PROJECT_ROOT / "sparkjob/connectors/pom.xml", _MAVEN_PLUGIN, *where])


def make_images(out: Path, version: str) -> None:
    """Both images for this machine's architecture, as archives, and how they were made."""
    for image in build_images(out):
        builder().save(image, out / f"{image.repository}-{version}-{native()}.tar", version)


def build_images(out: Path, architecture: str = "") -> list[Image]:
    """Build both images, for this machine's architecture unless another is given, and write how they were made."""
    building = builder(architecture)
    images = [building.build(target) for target in TARGETS]
    for image in images:
        write_provenance(out, image, building.architecture)
    return images


def write_sums(out: Path) -> None:
    """The checksums of all files, as `sha256sum --check` reads them."""
    files = sorted(file for file in out.iterdir() if file.is_file() and file.name != SUMS)
    lines = [f"{_sum(file)}  {file.name}\n" for file in files]
    (out / SUMS).write_text("".join(lines))


def _sum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
