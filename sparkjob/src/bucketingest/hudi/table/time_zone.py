"""Whether a table of time zone LOCAL uses UTC: Hudi stores that its writers used their local zone, but not which."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from bucketingest.hudi.timeline.instant import REPLACE_COMMIT, Instant
from bucketingest.hudi.timeline.instant_time import TIME_LENGTH, parse_time
from bucketingest.storage.interface import ObjectInfo

_STEP = timedelta(minutes=15)  # every zone's offset is a multiple of it
_WRITE_TIME_MAX = timedelta(seconds=60)  # from choosing a completion time until the file exists
_SPREAD_MIN = timedelta(minutes=2)
_WITNESSES_MIN = 3


def offset_from_utc(timeline_files: Iterable[ObjectInfo]) -> timedelta | None:
    """How far the times of a table are ahead of UTC, by completion times in names and modification times of files.

    A completed file is written within seconds of its completion time, so the difference shows the writer's zone; but
    that of our clustering minutes later. None if that is unknown: fewer than three completed instants, all
    within two minutes, or differences of more than one zone, as after copying a table. Pure.
    """
    offsets = set()
    completions = []
    for info in timeline_files:
        instant = Instant.try_parse(info.path.rpartition("/")[2])
        if instant is None or instant.completion_time is None or len(instant.completion_time) != TIME_LENGTH:
            continue
        if instant.action == REPLACE_COMMIT:
            continue
        completion = parse_time(instant.completion_time)
        difference = completion - info.modified
        offset = round(difference / _STEP) * _STEP
        if abs(difference - offset) > _WRITE_TIME_MAX:
            return None
        offsets.add(offset)
        completions.append(completion)
    if len(completions) < _WITNESSES_MIN or max(completions) - min(completions) < _SPREAD_MIN or len(offsets) != 1:
        return None
    return offsets.pop()
