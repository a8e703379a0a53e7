"""The images that no registry is asked for: the pause container, and a small Debian to build others from."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from devcluster.commands import run, say
from devcluster.errors import ClusterError
from devcluster.images.platforms import native
from devcluster.instance import cluster_folder
from devcluster.node.machine import package_settings

PAUSE: Final = "localhost/pause:1"
_SUITE: Final = "bookworm"
_PAUSE_SOURCE: Final = Path(__file__).parents[1] / "node" / "pause.c"
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SOURCES: Final = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))


def debian(architecture: str) -> str:
    """The name of the small Debian image."""
    return f"localhost/debian-small{'' if architecture == native() else f'-{architecture}'}:1"


def archive(image: str) -> Path:
    """The image as a file that containerd and buildah import."""
    return cluster_folder() / "images" / f"{image.rpartition('/')[2].replace(':', '-')}.tar"


def make_pause() -> None:
    """Make the pause image, unless it is there."""
    if archive(PAUSE).exists():
        return
    say("making the pause image (once)")
    archive(PAUSE).parent.mkdir(parents=True, exist_ok=True)
    binary = archive(PAUSE).with_name("pause")
    run(["gcc", "-Os", "-static", "-s", "-o", binary, _PAUSE_SOURCE])
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as content:
        content.add(binary, arcname="pause")
    _write(PAUSE, native(), layer.getvalue(), {"Entrypoint": ["/pause"]})


def make_debian(architecture: str) -> None:
    """Make the Debian image from this machine's own package sources, unless it is there. Programs of the architecture
    must run here.

    Raises:
        ClusterError: the machine has no such sources, or they do not answer.
    """
    image = debian(architecture)
    if archive(image).exists():
        return
    sources = next((path for path in _SOURCES if path.exists()), None)
    if sources is None:
        raise ClusterError("this machine has no package sources of Debian: give an image with BASE_IMAGE")
    say(f"making a small Debian image for {architecture} (once)")
    archive(image).parent.mkdir(parents=True, exist_ok=True)
    root = archive(image).with_name(f"debian-root-{architecture}.tar")
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("man", "doc", "locale")]
    settings = [f"--aptopt={each.removesuffix(';')}" for each in ('Acquire::Languages "none"', *package_settings())]
    kind = ["--variant=minbase", f"--architectures={architecture}", "--skip=check/qemu"]
    # Its mounts are its own: if it is killed it leaves none, and deleting its folder deletes nothing of the machine.
    own = ["unshare", "--mount", "--propagation", "private", "mmdebstrap"]
    run([*own, *kind, "--mode=root", "--include=ca-certificates", *excluded, *settings, _SUITE, root, sources])
    _write(image, architecture, root.read_bytes(), {"Cmd": ["/bin/bash"]})
    root.unlink()


def _write(image: str, architecture: str, layer: bytes, config: Mapping[str, Any]) -> None:
    """Write an image of one layer, as `docker save` would."""
    config = {
        "created": "2026-01-01T00:00:00Z",
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": [_PATH], **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": "2026-01-01T00:00:00Z", "created_by": "devcluster"}],
    }
    described = json.dumps(config).encode()
    name = f"{hashlib.sha256(described).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [image], "Layers": ["layer.tar"]}]
    parts: Sequence[tuple[str, bytes]] = (
        (name, described),
        ("layer.tar", layer),
        ("manifest.json", json.dumps(manifest).encode()),
    )
    unfinished = archive(image).with_suffix(f".{os.getpid()}")
    with tarfile.open(unfinished, "w") as file:
        for path, content in parts:
            info = tarfile.TarInfo(path)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    unfinished.rename(archive(image))
