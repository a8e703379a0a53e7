"""What keeps a clean or the archive from going on, and for how long: what a person should look at. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.services.archive.choose import Pin as ArchivePin
from bucketingest.services.clean.choose import Choice, Retention
from bucketingest.services.protocol.journal import KEPT_FOR
from bucketingest.spec.job_report import Pin


def pins(cleaned: Choice, archived: tuple[ArchivePin, ...], retention: Retention, now: datetime) -> tuple[Pin, ...]:
    """What holds them, the oldest first. `cleaned`, `archived`: what the last clean and archival found.

    What each table has, such as a last compaction, does not count; nor what passes by itself: superseded files stay for
    the time to retain, and late files are waited for a day.
    """
    found = [*_of_clean(cleaned, retention, now), *_of_archive(archived, retention, now)]
    return tuple(sorted((pin for pin in found if pin.seconds > 0), key=lambda pin: -pin.seconds))


def _of_clean(cleaned: Choice, retention: Retention, now: datetime) -> Iterator[Pin]:
    if cleaned.limit.pending:
        yield _pin("clean", cleaned.limit.why, cleaned.limit.pending, timedelta(), now)
    by_reason = {}
    for kept in sorted(cleaned.kept, key=lambda each: each.superseded_by, reverse=True):
        by_reason[kept.why] = kept  # the oldest stays
    for kept in by_reason.values():
        by = f"file group {kept.file_id} of partition {kept.partition_path!r}: {kept.why}"
        yield _pin("clean", by, kept.superseded_by, retention.retain or timedelta(), now)


def _of_archive(archived: tuple[ArchivePin, ...], retention: Retention, now: datetime) -> Iterator[Pin]:
    for each in archived:
        passes = KEPT_FOR + (retention.retain or timedelta()) if each.waits else timedelta()
        if not each.is_usual and (each.group is None or retention.versions is None):
            where = "" if each.group is None else f", file group {each.group[1]} of partition {each.group[0]!r}"
            yield _pin("archive", f"instant {each.instant}: {each.why}{where}", each.instant, passes, now)


def _pin(service: str, by: str, since: str, passes: timedelta, now: datetime) -> Pin:
    seconds = (now - parse_time(since) - passes).total_seconds()
    return Pin.model_validate({"service": service, "by": by, "seconds": max(seconds, 0.0)})
