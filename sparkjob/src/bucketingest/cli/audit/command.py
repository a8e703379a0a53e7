"""`bucketingest audit`: compares a table with the table of a database that it mirrors, while rows flow.

What differs at first may be on its way. So it is looked at again: the source, then, after a while in which a change
must have arrived, the table, then the source. Only what the source had both times, and the table has not, differs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import typer

from bucketingest.cli.audit.mirror import Mirror
from bucketingest.cli.audit.source import Load, PostgresSource
from bucketingest.cli.errors import BadOption, CommandError
from bucketingest.cli.options import UnknownFields, load_known
from bucketingest.cli.table_options import resource_of
from bucketingest.exit_codes import ExitCode
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import Storage, open_storage

RANGES_OF_KEYS_MAX: Final = 100
"""In so many ranges keys are looked for."""
_LOOKS_MAX: Final = 3
_SHOWN_MAX: Final = 20


class RowsDiffer(CommandError):
    """The table has not the rows of its source."""

    exit_code = ExitCode.FINDINGS


@dataclass(frozen=True, slots=True)
class Asked:
    """What is compared, and how."""

    against: str
    table: str | None
    """The source's, SCHEMA.TABLE; None: as the topic's name says."""
    columns: tuple[str, ...]
    """None: all that both have."""
    load: Load
    settle_seconds: float
    """So long a change may take from the source into the table."""


@dataclass(slots=True)
class Report:
    """What was found; lists have at most a few dozen entries, numbers count all."""

    source: str
    source_position: str
    """Of the source's log when the last look began."""
    table_instant: str
    rows: int
    """Of the source, by the first look."""
    ranges: int
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    missing: int = 0
    extra: int = 0
    different: int = 0
    changing: int = 0
    """Keys that changed in the source during the last look: not judged."""
    keys: list[str] = field(default_factory=list)
    differing_ranges: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.missing or self.extra or self.different or self.differing_ranges)


def audit_file(
    file: Path,
    topic: str | None,
    asked: Asked,
    *,
    as_json: bool,
    unknown_fields: UnknownFields = UnknownFields.REFUSE,
) -> None:
    """Compare, and print what differs. `topic`: of many tables the one that is meant.

    Raises RowsDiffer, SpecError, BadOption, MissingDependency, SourceFailed, and what reading a table raises.
    """
    resource = resource_of(load_known(file, unknown_fields), topic)
    storage = open_storage(resource.spec.table.path)
    table = asked.table or _table_of(resource)
    mirror = Mirror.open(storage)
    opened = PostgresSource.open(
        asked.against, table, asked.load, key=mirror.key, schema=mirror.schema, only=asked.columns
    )
    with opened as source:
        report = compare(source, storage, mirror, asked.settle_seconds, table=table)
    typer.echo(json.dumps(asdict(report) | {"equal": report.is_equal}) if as_json else _shown(report))
    if not report.is_equal:
        raise RowsDiffer("; ".join(["the table differs from its source", _count(report), *report.keys[:3]]))


def compare(
    source: PostgresSource,
    storage: Storage,
    mirror: Mirror,
    settle_seconds: float,
    *,
    table: str,
    wait: Callable[[float], None] = time.sleep,
) -> Report:
    """Look at all ranges, and again at those that differ. `wait`: until a change of before is in the table."""
    position = source.position()
    of_source, of_table = source.sums(source.ranges), mirror.sums(source)
    rows = sum(count for count, _ in of_source.values())
    left = [at for at in source.ranges if of_source.get(at) != of_table.get(at)]
    looks = 1
    while len(left) > RANGES_OF_KEYS_MAX and looks < _LOOKS_MAX:
        looks += 1
        position, before = source.position(), source.sums(left)
        wait(settle_seconds)
        mirror = Mirror.open(storage)
        of_table, after = mirror.sums(source), source.sums(left)
        left = [at for at in left if of_table.get(at) not in (before.get(at), after.get(at))]
    compared = source.compared
    report = Report(table, position, mirror.instant, rows, len(source.ranges), compared.columns, compared.left_out)
    report.differing_ranges = [source.name(at) for at in left[RANGES_OF_KEYS_MAX:]]
    if left:
        _look_for_keys(source, storage, left[:RANGES_OF_KEYS_MAX], report, lambda: wait(settle_seconds))
    return report


def _look_for_keys(
    source: PostgresSource, storage: Storage, ranges: Sequence[int], report: Report, wait: Callable[[], None]
) -> None:
    report.source_position, before = source.position(), source.rows(ranges)
    wait()
    mirror = Mirror.open(storage)
    report.table_instant, found = mirror.instant, mirror.rows(source, ranges)
    after = source.rows(ranges)
    for key in sorted({*before, *found, *after}, key=str):
        had, has, is_now = (rows.get(key, (0, 0)) for rows in (before, found, after))
        if has in (had, is_now):
            continue
        if had != is_now:
            report.changing += 1
            continue
        what = "missing" if has[0] < had[0] else "extra" if has[0] > had[0] else "different"
        setattr(report, what, getattr(report, what) + 1)
        if len(report.keys) < _SHOWN_MAX:
            names = ", ".join(f"{name}={text}" for name, text in zip(source.compared.key, key, strict=True))
            report.keys.append(f"{what}: {names}")


def _table_of(resource: BucketIngest) -> str:
    kafka = resource.spec.source.kafka
    topics = () if kafka is None else kafka.topics or ()
    parts = topics[0].split(".")[-2:] if len(topics) == 1 else []
    if len(parts) != 2:
        raise BadOption("--table: name the source's table as SCHEMA.TABLE: the spec has not one topic that says it")
    return ".".join(parts)


def _count(report: Report) -> str:
    return f"{report.missing} missing, {report.extra} extra, {report.different} with other values"


def _shown(report: Report) -> str:
    positions = f"source {report.source} at {report.source_position}, table at {report.table_instant}"
    lines = [
        f"{positions}: {report.rows} rows of the source in {report.ranges} ranges",
        f"compared: {', '.join(report.columns)}",
    ]
    if report.left_out:
        lines.append(f"not compared: {', '.join(report.left_out)}")
    judged = f", but for {report.changing} keys that changed all the while: not judged" if report.changing else ""
    if report.is_equal:
        return "\n".join([*lines, f"equal{judged}"])
    lines += report.keys
    if (count := report.missing + report.extra + report.different) > len(report.keys):
        lines.append(f"and {count - len(report.keys)} keys more")
    shown = report.differing_ranges[:_SHOWN_MAX]
    lines += [f"differs, keys not looked for: {each}" for each in shown]
    if len(shown) < len(report.differing_ranges):
        lines.append(f"and {len(report.differing_ranges) - len(shown)} ranges more")
    lines.append(f"DIFFERENT: {_count(report)}{judged}")
    return "\n".join(lines)
