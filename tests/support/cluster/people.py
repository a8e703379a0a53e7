"""What a person at a terminal does: run a command with a kubeconfig, look into the file it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path


def bucketingest(kubeconfig: Path, *arguments: str) -> str:
    """What the command prints on stdout. Raises AssertionError with what it said when it failed."""
    done = subprocess.run(
        [sys.executable, "-m", "bucketingest.cli.main", *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def unpacked(path: Path) -> dict[str, str]:
    """Files of a bundle by their path in it."""
    with tarfile.open(path) as archive:
        members = {each.name.partition("/")[2]: archive.extractfile(each) for each in archive.getmembers()}
        return {name: stream.read().decode() for name, stream in members.items() if stream is not None}
