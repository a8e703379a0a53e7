"""What can happen to Spark's checkpoint between two attempts."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from soak.fault_plan import Damage


class Checkpoints:
    """The checkpoint directory of the pipeline, with all checkpoints in it, and an older copy of it."""

    def __init__(self, root: Path, spare: Path) -> None:
        self._root = root
        self._spare = spare

    def keep_copy(self) -> None:
        """Remember what is there now, for `Damage.STALE`."""
        shutil.rmtree(self._spare, ignore_errors=True)
        if self._root.exists():
            shutil.copytree(self._root, self._spare)

    def damage(self, damage: Damage) -> int:
        """Damage every checkpoint; no query may be running. Returns how many files or directories it hit."""
        if damage in {Damage.ALL_GONE, Damage.STALE}:
            shutil.rmtree(self._root, ignore_errors=True)
            if damage is Damage.STALE and self._spare.exists():
                shutil.copytree(self._spare, self._root)
            return 1
        return sum(_damaged(checkpoint, damage) for checkpoint in self._checkpoints())

    def _checkpoints(self) -> Iterator[Path]:
        """Directories that look like a checkpoint of Spark's."""
        for metadata in sorted(self._root.rglob("metadata")):
            if metadata.is_file():
                yield metadata.parent


def _damaged(checkpoint: Path, damage: Damage) -> int:
    metadata = checkpoint / "metadata"
    match damage:
        case Damage.OFFSET_GONE:
            return _delete(_numbered(checkpoint / "offsets")[-1:])
        case Damage.OFFSETS_GONE:
            return _delete(_numbered(checkpoint / "offsets"))
        case Damage.COMMITS_GONE:
            return _delete(_numbered(checkpoint / "commits"))
        case Damage.COMMIT_GONE:
            return _delete(_numbered(checkpoint / "commits")[-1:])
        case Damage.METADATA_GONE:
            return _delete([metadata])
        case Damage.METADATA_FOREIGN:
            return _write(metadata, json.dumps({"id": str(uuid.uuid4())}).encode())
        case Damage.METADATA_EMPTY:
            return _write(metadata, b"")
        case Damage.TORN:
            newest = _numbered(checkpoint / "offsets")[-1:]
            return sum(_write(path, path.read_bytes()[: path.stat().st_size // 2]) for path in newest)
        case _:
            raise AssertionError(f"{damage} is done to the directory as a whole")


def _numbered(folder: Path) -> list[Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted((path for path in files if path.name.isdigit()), key=lambda path: int(path.name))


def _delete(files: list[Path]) -> int:
    for path in files:
        path.unlink()
        _checksum(path).unlink(missing_ok=True)
    return len(files)


def _write(path: Path, content: bytes) -> int:
    path.write_bytes(content)
    _checksum(path).unlink(missing_ok=True)  # Hadoop would refuse the file for its checksum alone
    return 1


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")
