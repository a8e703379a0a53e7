"""The dead-letter table as a retry sees it: which letters are asked for, and what becomes of those that are rows now.

A file of letters loses those that were retried only after their rows are committed. So a retry that was killed finds
them again: to retry one twice changes nothing. They are kept in `.retried/<instant>/`, and come back if that instant is
lost: nothing else would ingest them again.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.position import read_position
from bucketingest.write.rows.dead_letters import dead_letter_file

log = logging.getLogger(__name__)

LETTERS_MAX: Final = 100_000
BYTES_MAX: Final = 128 * 1024**2
"""After so many letters that are asked for, or bytes, a round takes no further file. A file has about 16 MiB."""
_RETRIED: Final = ".retried"

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset of a message."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which letters are to be retried."""

    reasons: frozenset[str] = frozenset()
    """Empty: all."""
    since: str = ""
    until: str = "9"
    """Times of the instants that rejected them, as the timeline writes them: from `since` on, and before `until`."""

    def mask(self, letters: pa.Table) -> npt.NDArray[np.bool_]:
        """Which of the letters are asked for."""
        instants = letters["instant"]
        wanted = pc.and_(pc.greater_equal(instants, self.since), pc.less(instants, self.until))
        if self.reasons:
            wanted = pc.and_(wanted, pc.is_in(letters["reason"], pa.array(sorted(self.reasons))))
        return wanted.to_numpy()


@dataclass(frozen=True, slots=True)
class LetterFile:
    """A published file of dead letters, of which some are asked for."""

    name: str
    letters: pa.Table
    """All of its letters, as `DEAD_LETTER_SCHEMA`."""
    wanted: npt.NDArray[np.bool_]

    @property
    def places(self) -> list[Place | None]:
        """Of each letter; None of one that is not made of a message."""
        columns = (self.letters[name].to_pylist() for name in ("topic", "partition", "offset"))
        return [None if place[2] is None else place for place in zip(*columns, strict=True)]


def rounds(storage: Storage, asked: Asked) -> Iterator[list[LetterFile]]:
    """The files with letters that are asked for, oldest first, some at a time."""
    found: list[LetterFile] = []
    count = size = 0
    for name in sorted(info.path for info in storage.list_level("").objects if info.path.endswith(".parquet")):
        letters = pq.read_table(io.BytesIO(storage.get(name)))
        if (wanted := asked.mask(letters)).any():
            found.append(LetterFile(name, letters, wanted))
            count, size = count + int(wanted.sum()), size + letters.nbytes
        if count >= LETTERS_MAX or size >= BYTES_MAX:
            yield found
            found, count, size = [], 0, 0
    if found:
        yield found


def take_out(storage: Storage, files: Sequence[LetterFile], rows_now: Collection[Place], instant: str) -> None:
    """The messages at these places are rows in the committed instant: their letters leave the dead-letter table. It may
    be repeated after a crash.
    """
    for file in files:
        gone = file.wanted & np.array([place in rows_now for place in file.places])
        if not gone.any():
            continue
        kept = f"{file.name.removesuffix('.parquet')}_{instant}.parquet"
        storage.put(f"{_RETRIED}/{instant}/{kept}", dead_letter_file(file.letters.filter(pa.array(gone))))
        if gone.all():
            storage.delete(file.name)
        else:
            storage.put(file.name, dead_letter_file(file.letters.filter(pa.array(~gone))))


def put_back(letters: Storage, table: Storage, pipeline: str) -> list[str]:
    """Letters whose rows were lost, because another writer rolled their instant back, are in the dead-letter table
    again; returns the names of their files. Looks at the table only if letters were ever retried.
    """
    instants = [path.rpartition("/")[2] for path in letters.list_level(_RETRIED).directories]
    if not instants:
        return []
    timeline = Timeline.load(table)
    lost = read_position(table, timeline, Journal(table, pipeline)).superseded
    names: list[str] = []
    for instant in instants:
        if instant not in lost and (timeline.is_archived(instant) or timeline.completion_time(instant) is not None):
            continue
        for path in [info.path for info in letters.list(f"{_RETRIED}/{instant}")]:
            names.append(path.rpartition("/")[2])
            letters.put(names[-1], letters.get(path))
            letters.delete(path)
    if names:
        log.warning("dead letters are back: the rows that they became were rolled back", extra={"files": names})
    return names
