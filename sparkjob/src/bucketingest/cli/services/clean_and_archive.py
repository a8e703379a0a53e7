"""`bucketingest clean` and `bucketingest archive`: keep a table small, by hand. They need neither Spark nor Java."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import typer

from bucketingest.cli.errors import BadOption
from bucketingest.cli.options import duration
from bucketingest.cli.services.held_table import TableChoice, held
from bucketingest.hudi.timeline.instant import Instant
from bucketingest.services.archive.choose import ArchiveRules, Pin
from bucketingest.services.clean.choose import DEFAULT_RETENTION, Choice, Retention
from bucketingest.services.clean.execute import choose_now
from bucketingest.services.clean_and_archive import archive_old, archive_plan, clean
from bucketingest.services.protocol.holder import Guarded


def retention(retain: str | None, versions: int | None) -> Retention:
    """What two options say, of which one may be given. Raises BadOption."""
    if retain is None:
        return DEFAULT_RETENTION if versions is None else Retention(versions=versions)
    if versions is not None:
        raise BadOption("--versions: give either --retain or --versions")
    return Retention(retain=duration("--retain", retain))


def clean_table(choice: TableChoice, retention: Retention, *, dry_run: bool, as_json: bool) -> None:
    """Delete files that a compaction has superseded and that are not retained; report them, and what stays and why.

    Raises TableLeased if a job holds the table, CleanRefused, UnsupportedTable, and what reading and writing raises.
    """
    if dry_run:
        chosen = choose_now(Guarded(choice.open()), retention)
        files = 0 if chosen.plan is None else sum(map(len, chosen.plan.files.values()))
    else:
        with held(choice) as owned:
            cleaned = clean(owned, retention)
        chosen, files = cleaned.choice, sum(each.files for each in cleaned.results)
    _report_clean(choice.url, chosen, files, dry_run=dry_run, as_json=as_json)


def _report_clean(url: str, chosen: Choice, files: int, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        record = {
            "table": url,
            "dry_run": dry_run,
            "files": files,
            "earliest_retained": None if chosen.limit.instant is None else chosen.limit.instant.request_time,
            "limited_by": chosen.limit.why,
            "kept": [
                {"partition": each.partition_path, "file_id": each.file_id, "slice": each.base_instant, "why": each.why}
                for each in chosen.kept
            ],
        }
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{files} files {'would be deleted' if dry_run else 'deleted'}")
    for why, count in Counter(each.why for each in chosen.kept).most_common():
        typer.echo(f"{count} old file slices stay: {why}")


def archive_rules(commits: int | None, retain: str | None) -> ArchiveRules:
    """What two options say. Raises BadOption."""
    least = ArchiveRules()
    age = least.min_age if retain is None else duration("--retain", retain)
    if age < least.min_age:
        raise BadOption("--retain: at least 1h: a process that was paused may still write to younger instants")
    return replace(least, keep_min=least.keep_min if commits is None else commits, min_age=age)


def archive_table(choice: TableChoice, rules: ArchiveRules, *, dry_run: bool, as_json: bool) -> None:
    """Take old instants off the active timeline; report them, and what keeps others there.

    Raises TableLeased if a job holds the table, UnsupportedTable, and what reading and writing a table raises.
    """
    instants: Sequence[Instant]
    if dry_run:
        planned = archive_plan(Guarded(choice.open()), rules)
        instants, pins = planned.instants, planned.pins
    else:
        with held(choice) as owned:
            results = archive_old(owned, rules)
        instants, pins = list(chain.from_iterable(each.instants for each in results)), results[-1].pins
    _report_archive(choice.url, instants, pins, dry_run=dry_run, as_json=as_json)


def _report_archive(
    url: str, instants: Sequence[Instant], pins: Sequence[Pin], *, dry_run: bool, as_json: bool
) -> None:
    if as_json:
        record = {
            "table": url,
            "dry_run": dry_run,
            "instants": [each.file_name for each in instants],
            "kept_by": [{"instant": each.instant, "why": each.why, "group": each.group} for each in pins],
        }
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{len(instants)} instants {'would be archived' if dry_run else 'archived'}")
    for pin in pins:
        typer.echo(f"instants from {pin.first_kept} on stay: {pin.instant}: {pin.why}")
