"""The file that `diagnose` writes: a .tar.gz of one folder of text files, limited in size, and read for replays."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from bucketingest_operator.cli.errors import NoBundle

DECISIONS: Final = "decisions.jsonl"
MEMBER_MAX: Final = 64 * 1024 * 1024
"""Maximum bytes of one file of a bundle."""


class BundleWriter:
    """Collects files and writes them as one bundle, with a list of what is missing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, bytes] = {}
        self.missing: dict[str, str] = {}
        """File or part → why it is missing."""

    @property
    def names(self) -> list[str]:
        """Files so far."""
        return sorted(self._files)

    def add(self, name: str, text: str) -> None:
        """Add a text. If it is too long, its end is kept: the newest part of a log."""
        data = text.encode("utf-8", "replace")
        self._files[name] = data if len(data) <= MEMBER_MAX else data[-MEMBER_MAX:]

    def add_yaml(self, name: str, content: Any) -> None:
        """Add an object as YAML."""
        self.add(name, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))

    def add_json(self, name: str, content: Any) -> None:
        """Add an object as JSON."""
        self.add(name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def write(self, path: Path) -> None:
        """Write the bundle, readable only by its owner. Raises OSError."""
        if self.missing:
            self.add("missing.txt", "".join(f"{name}: {why}\n" for name, why in sorted(self.missing.items())))
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for name, data in sorted(self._files.items()):
                member = tarfile.TarInfo(f"{self._folder}/{name}")
                member.size, member.mtime, member.mode = len(data), int(time.time()), 0o600
                archive.addfile(member, io.BytesIO(data))
        path.touch(mode=0o600)
        path.write_bytes(buffer.getvalue())


def read_decisions(path: Path) -> Iterator[dict[str, Any]]:
    """The records of the decision log in a bundle, oldest first. Unpacks nothing to disk. Raises NoBundle."""
    try:
        with tarfile.open(path, mode="r:gz") as archive:
            member = next((each for each in archive if each.isfile() and each.name.endswith(f"/{DECISIONS}")), None)
            if member is None:
                raise NoBundle(
                    f"{path}: has no {DECISIONS}: the operator's log could not be read when the bundle was made"
                )
            stream = archive.extractfile(member)
            assert stream is not None, "it is a file"
            text = stream.read(MEMBER_MAX).decode("utf-8", "replace")
    except (OSError, EOFError, tarfile.TarError) as error:
        raise NoBundle(f"{path}: cannot be read as a bundle of bucketingest diagnose: {error}") from error
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record
