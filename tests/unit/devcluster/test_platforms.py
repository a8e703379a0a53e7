"""Images are built for another kind of processor only where its programs run; else the message says what to install."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from devcluster.errors import ClusterError
from devcluster.images import base, platforms
from devcluster.images.project import Builder

OTHER = "linux/arm64"


@pytest.fixture(autouse=True)
def an_amd64_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def test_its_own_programs_run() -> None:
    assert platforms.native() == "amd64"
    platforms.require_programs_of("amd64", Path("/nowhere"))


def test_others_run_by_a_handler_that_works_in_a_chroot(tmp_path: Path) -> None:
    handler = tmp_path / "qemu-aarch64"
    handler.write_text("enabled\ninterpreter /usr/bin/qemu-aarch64\nflags: POCF\noffset 0\n")
    platforms.require_programs_of("arm64", tmp_path)
    handler.write_text("enabled\ninterpreter /usr/bin/qemu-aarch64\nflags: PO\noffset 0\n")
    with pytest.raises(ClusterError, match="no programs of arm64"):
        platforms.require_programs_of("arm64", tmp_path)


def test_without_one_the_message_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"apt-get install qemu-user-static .* --enable qemu-aarch64"):
        platforms.require_programs_of("arm64", tmp_path)


def test_each_architecture_has_its_own_base() -> None:
    assert base.debian("amd64") != base.debian("arm64") == "localhost/debian-small-arm64:1"


def test_the_base_says_its_architecture_and_a_build_that_is_killed_leaves_no_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str | Path]) -> str:
        ran.append([str(word) for word in command])
        Path(command[-2]).write_bytes(b"the root folder")
        return ""

    (tmp_path / "sources").touch()
    monkeypatch.setattr(base, "_SOURCES", (tmp_path / "sources",))
    monkeypatch.setattr(base, "cluster_folder", lambda: tmp_path)
    monkeypatch.setattr(base, "run", run)
    base.make_debian("arm64")
    # In the machine's own mounts, /dev/shm would lie behind a folder that somebody deletes later.
    assert ran[0][:5] == ["unshare", "--mount", "--propagation", "private", "mmdebstrap"]
    assert "--architectures=arm64" in ran[0]
    with tarfile.open(base.archive(base.debian("arm64"))) as image:
        (config,) = [name for name in image.getnames() if name.endswith(".json") and name != "manifest.json"]
        found = image.extractfile(config)
        assert found is not None
        assert json.load(found)["architecture"] == "arm64"


@pytest.mark.parametrize(("architecture", "said"), [("", []), ("amd64", []), ("arm64", ["--platform", OTHER])])
def test_only_another_platform_is_named_to_the_builder(architecture: str, said: list[str]) -> None:
    building = Builder("docker", architecture)
    assert building.platform == said
    assert building.architecture == (architecture or "amd64")
