"""Reads, fingerprints and writes the log in which Spark's file source keeps which files it has read.

A micro-batch of files is identified by them, and Spark's position of it is only a number in this log. Entry N of the
log has the files that Spark took from one listing of the directory. It is the file `N`; every tenth one is `N.compact`,
which has all entries up to N too, and older files are deleted in time (Spark 4.2: CompactibleFileStreamLog and
FileStreamSourceLog, and seen).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from bucketingest.storage import NotFound, Storage
from bucketingest.stream.checkpoint.text import SOURCE, VERSION, UnknownForm, parse_json

COMPACT_INTERVAL: Final = 10
"""Entries from one compact file to the next: Spark's default, and what `REQUIRED_CONF` of the session says."""
_COMPACT: Final = ".compact"

Entries: TypeAlias = Mapping[int, Sequence[str]]
"""Number of an entry → its lines, one per file."""


def read_log(checkpoint: Storage, directory: str, last: int) -> dict[int, list[str]] | None:
    """The entries 0 to `last`; None if they are not all there.

    An older compact file and the files after it replace a torn one, if they are still there.
    """
    folder = f"{directory}/{SOURCE}" if directory else SOURCE
    names = {info.path.rpartition("/")[2] for info in checkpoint.list_level(folder).objects}
    compacts = sorted((int(name[: -len(_COMPACT)]) for name in names if _is_compact(name)), reverse=True)
    for compact in [*compacts, -1]:
        wanted = [f"{compact}{_COMPACT}"] if compact >= 0 else []
        wanted += [str(number) for number in range(compact + 1, last + 1)]
        if names.issuperset(wanted) and (entries := _read(checkpoint, folder, wanted, last)) is not None:
            return entries
    return None


def _is_compact(name: str) -> bool:
    return name.endswith(_COMPACT) and name[: -len(_COMPACT)].isdigit()


def _read(checkpoint: Storage, folder: str, names: Sequence[str], last: int) -> dict[int, list[str]] | None:
    entries: dict[int, list[str]] = {}
    try:
        for name in names:
            for number, line in parse_log_file(checkpoint.get(f"{folder}/{name}").decode(errors="replace")):
                if number <= last:
                    entries.setdefault(number, []).append(line)
    except (NotFound, UnknownForm):
        return None
    # An entry is written only for files, so none of them is empty.
    return entries if sorted(entries) == list(range(last + 1)) else None


def parse_log_file(text: str) -> list[tuple[int, str]]:
    """The lines of one file, each with the number of its entry. Raises UnknownForm."""
    version, *lines = text.split("\n")
    if version != VERSION:
        raise UnknownForm(text[:80])
    numbered: list[tuple[int, str]] = []
    for line in lines:
        entry = parse_json(line)
        if not isinstance(entry, dict) or not {"path", "timestamp", "batchId"} <= set(entry):
            raise UnknownForm(line[:80])
        numbered.append((int(entry["batchId"]), line))
    return numbered


def digest_after(digest: str, lines: Sequence[str]) -> str:
    """Fingerprint of a log up to and with an entry, from that of the log before it; "" is an empty log's."""
    state = hashlib.sha256(digest.encode())
    for line in lines:
        entry = json.loads(line)
        state.update(f"\n{entry['timestamp']} {entry['path']}".encode())
    return state.hexdigest()[:32]


def digest_of(entries: Entries, last: int) -> str:
    """Fingerprint of the entries 0 to `last`."""
    digest = ""
    for number in range(last + 1):
        digest = digest_after(digest, entries[number])
    return digest


def log_files(entries: Entries, last: int) -> dict[str, bytes]:
    """The files of a log that has the entries 0 to `last`, so that Spark can continue it.

    Spark takes the distance of the two newest compact files as the interval; from a single one it guesses, correctly
    for the first (deriveCompactInterval). So there are two wherever possible.
    """
    newest = (last + 1) // COMPACT_INTERVAL * COMPACT_INTERVAL - 1
    files = {}
    for compact in (newest - COMPACT_INTERVAL, newest):
        if compact >= 0:
            files[f"{compact}{_COMPACT}"] = _text(entries, range(compact + 1))
    for number in range(newest + 1, last + 1):
        files[str(number)] = _text(entries, range(number, number + 1))
    return files


def _text(entries: Entries, numbers: range) -> bytes:
    return "\n".join([VERSION, *(line for number in numbers for line in entries[number])]).encode()


class LogDigests:
    """Fingerprints of a running query's log, each entry read once."""

    def __init__(self, checkpoint: Storage) -> None:
        self._checkpoint = checkpoint
        self._digests: dict[int, str] = {-1: ""}

    def at(self, last: int) -> str | None:
        """Fingerprint of the log up to an entry; None if it is not whole."""
        if last not in self._digests:
            newest = max(self._digests)
            lines = {} if last < newest else self._entries(newest + 1, last)
            if lines is None or last < newest:
                return self._from_scratch(last)
            for number in range(newest + 1, last + 1):
                self._digests[number] = digest_after(self._digests[number - 1], lines[number])
            for number in [each for each in self._digests if -1 < each < last - COMPACT_INTERVAL]:
                del self._digests[number]
        return self._digests[last]

    def _from_scratch(self, last: int) -> str | None:
        entries = read_log(self._checkpoint, "", last)
        if entries is None:
            return None
        self._digests[last] = digest_of(entries, last)
        return self._digests[last]

    def _entries(self, first: int, last: int) -> dict[int, list[str]] | None:
        """Some entries from their own files; None if one of those is not there."""
        entries: dict[int, list[str]] = {}
        for number in range(first, last + 1):
            suffix = _COMPACT if (number + 1) % COMPACT_INTERVAL == 0 else ""
            try:
                lines = parse_log_file(self._checkpoint.get(f"{SOURCE}/{number}{suffix}").decode(errors="replace"))
            except (NotFound, UnknownForm):
                return None
            entries[number] = [line for of, line in lines if of == number]
            if not entries[number]:
                return None
        return entries
