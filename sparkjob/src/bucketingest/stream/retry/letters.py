"""The dead-letter table as a retry sees it: which letters are asked for, and what becomes of those that are rows now.

A file of letters loses those that were retried only after their rows are committed. So a retry that was killed finds
them again: to retry one twice changes nothing. They are kept in `.retried/<pipeline>/<instant>/`, and come back if that
instant is lost: nothing else would ingest them again.

Pipelines may share a place. Each letter has the instant that rejected it, and whose that is the table says.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bucketingest.hudi.history.archived import (
    OPEN_FOR,
    archived_commits,
    archived_completion_times,
    archived_contents,
    is_archived,
)
from bucketingest.hudi.timeline.commit_metadata import TABLE_SERVICES, CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, REPLACE_COMMIT
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import Storage, get_if_there, open_storage
from bucketingest.stream.pipeline import Pipeline
from bucketingest.write.dead_letters.instant_letters import all_places
from bucketingest.write.dead_letters.rejected import dead_letter_file
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.position import ranges_of, read_position
from bucketingest.write.pipeline_names import PIPELINE, directory_name

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

    storage: Storage
    name: str
    letters: pa.Table
    """All of its letters, as `DEAD_LETTER_SCHEMA`."""
    wanted: npt.NDArray[np.bool_]

    @property
    def instant(self) -> str:
        """Request time of the instant that rejected them."""
        return self.name.partition("_")[0]

    @property
    def places(self) -> list[Place | None]:
        """Of each letter; None of one that is not made of a message."""
        columns = (self.letters[name].to_pylist() for name in ("topic", "partition", "offset"))
        return [None if place[2] is None else place for place in zip(*columns, strict=True)]


def places_of(pipeline: Pipeline, table: Storage) -> list[Storage]:
    """As `all_places`."""
    journal = Journal(table, pipeline.name)
    return all_places(pipeline.dead_letters_url, journal, lambda url: open_storage(url, pipeline.storage_options))


def instants_of(table: Storage, pipeline: str) -> Callable[[str], bool]:
    """Whether the pipeline committed an instant in the table, which may be archived by now."""
    paths = {each.request_time: path_of(each) for each in Timeline.load(table).completed_commits}

    def is_of(instant: str) -> bool:
        if instant in paths and ranges_of(table, paths[instant], pipeline):
            return True
        contents = archived_contents(table, instant, DELTA_COMMIT)
        return any(CommitMetadata.decode_extra(each, instant).get(PIPELINE) == pipeline for each in contents)

    return cache(is_of)


def others_until(table: Storage, pipeline: str, since: str) -> str:
    """When another writer, or another pipeline, last completed a write of rows, as far as that may be after `since`;
    else "", or an earlier time. Table services write no rows of their own.
    """
    newest = ""
    for instant in Timeline.load(table).completed_commits:
        if (content := get_if_there(table, path_of(instant))) and _is_of_others(content, path_of(instant), pipeline):
            newest = max(newest, instant.completion_time or "")
    first = format_time(parse_time(since) - OPEN_FOR)
    contents = chain.from_iterable(archived_commits(table, first, each) for each in (DELTA_COMMIT, REPLACE_COMMIT))
    archived = {time for time, content in contents if _is_of_others(content, time, pipeline)}
    return max([newest, *archived_completion_times(table, archived).values()])


def _is_of_others(content: bytes, where: str, pipeline: str) -> bool:
    if CommitMetadata.decode_extra(content, where).get(PIPELINE) == pipeline:
        return False
    return CommitMetadata.decode(content, where).operation_type not in TABLE_SERVICES


def rounds(places: Sequence[Storage], asked: Asked, is_ours: Callable[[str], bool]) -> Iterator[list[LetterFile]]:
    """The files with letters that are asked for, oldest first, some at a time. `is_ours`: whether the
    instant of a file is the pipeline's.
    """
    found: list[LetterFile] = []
    count = size = 0
    files = ((place, info.path) for place in places for info in place.list_level("").objects)
    for storage, name in sorted((each for each in files if each[1].endswith(".parquet")), key=lambda each: each[1]):
        if (content := get_if_there(storage, name)) is None:
            continue
        letters = _read(content)
        if (wanted := asked.mask(letters)).any():
            if not is_ours(name.partition("_")[0]):
                log.warning("dead letters that are not of this pipeline stay", extra={"file": name})
                continue
            found.append(LetterFile(storage, name, letters, wanted))
            count, size = count + int(wanted.sum()), size + letters.nbytes
        if count >= LETTERS_MAX or size >= BYTES_MAX:
            yield found
            found, count, size = [], 0, 0
    if found:
        yield found


def take_out(files: Sequence[LetterFile], rows_now: Collection[Place], pipeline: str, instant: str) -> None:
    """The messages at these places are rows in the committed instant: their letters leave the dead-letter table. It may
    be repeated after a crash.
    """
    for file in files:
        gone = file.wanted & np.array([place in rows_now for place in file.places])
        if not gone.any():
            continue
        kept = f"{file.name.removesuffix('.parquet')}_{instant}.parquet"
        path = f"{_retried(pipeline)}/{instant}/{kept}"
        file.storage.put(path, dead_letter_file(file.letters.filter(pa.array(gone))))
        if gone.all():
            file.storage.delete(file.name)
        else:
            file.storage.put(file.name, dead_letter_file(file.letters.filter(pa.array(~gone))))


def put_back(places: Sequence[Storage], table: Storage, pipeline: str) -> list[str]:
    """Letters whose rows were lost, because another writer rolled their instant back, are in the dead-letter table
    again; returns the names of their files. Looks at the table only if letters were ever retried. It may be repeated
    after a crash.
    """
    levels = [(place, place.list_level(_retried(pipeline)).directories) for place in places]
    retried = [(place, path) for place, directories in levels for path in directories]
    if not retried:
        return []
    timeline = Timeline.load(table)
    lost = read_position(table, timeline, Journal(table, pipeline)).superseded
    is_ours = instants_of(table, pipeline)
    names: list[str] = []
    for place, directory in retried:
        instant = directory.rpartition("/")[2]
        # Older than the timeline is not enough: its rollback may be long ago.
        if instant not in lost and (timeline.completion_time(instant) is not None or is_archived(table, instant)):
            continue
        for path in [info.path for info in place.list(directory)]:
            name = f"{path.rpartition('/')[2].removesuffix(f'_{instant}.parquet')}.parquet"
            rejected = name.partition("_")[0]
            if rejected not in lost:  # else they come again with the rows of the instant that had them
                if not is_ours(rejected):  # a pipeline of this name has retried it into another table
                    continue
                _put_among(place, name, place.get(path))
                names.append(name)
            place.delete(path)
    if names:
        log.warning("dead letters are back: the rows that they became were rolled back", extra={"files": names})
    return names


def _put_among(place: Storage, name: str, content: bytes) -> None:
    """Add letters to the file that had them, unless it has them still, or again: a retry may have been killed."""
    letters = _read(content)
    if (there := get_if_there(place, name)) is not None:
        present = _read(there)
        known = {tuple(row.values()) for row in present.to_pylist()}
        missing = [tuple(row.values()) not in known for row in letters.to_pylist()]
        letters = pa.concat_tables([present, letters.filter(pa.array(missing, pa.bool_()))])
    place.put(name, dead_letter_file(letters))


def _read(content: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(content), page_checksum_verification=True)


def _retried(pipeline: str) -> str:
    return f"{_RETRIED}/{directory_name(pipeline)}"
