"""Actions of a user at a terminal: run a command with a kubeconfig, read the file it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path


def bucketingest(kubeconfig: Path, *arguments: str) -> str:
    """The command's stdout. Raises AssertionError with its stderr if it fails."""
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
