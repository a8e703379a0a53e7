"""`bucketingest compact`: merges log files into base files by hand. It needs neither Spark nor Java."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from bucketingest.cli.process.signals import StopSignals
from bucketingest.cli.services.held_table import TableChoice, held
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.services.compact_now import compact_now
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.propose import Proposal, propose
from bucketingest.services.compaction.records import Ended
from bucketingest.services.handover import LogOnly, hand_over, log_only_groups, refuse_same_ids
from bucketingest.services.pods.shared_round import share_round
from bucketingest.services.state import damage_report
from bucketingest.spec.quantity import format_duration

EVERYTHING = CompactionTriggers(log_files=1, log_age=timedelta(0))


def compact_table(
    choice: TableChoice, triggers: CompactionTriggers, *, accept_damage: bool, dry_run: bool, as_json: bool
) -> None:
    """Finish the compaction that another process left, then do the one that is due; report both. `accept_damage`: also
    of file groups that lack files.

    Raises TableLeased if a job holds the table, UnsupportedTable, PlanOutdated if another writer came between, and
    what reading and writing a table raises.
    """
    if dry_run:
        look = propose(choice.open(), triggers, datetime.now(UTC), accept_damage=accept_damage)
        damage_report(look.damaged)
        _report(choice.url, look.proposal, [], as_json=as_json, dry_run=True)
        return
    with held(choice) as table:
        holder = CompactionHolder(table.storage, table.lock, table.check)
        holder.sweep_old()
        ended = compact_now(table.storage, holder, triggers, utc_now, accept_damage=accept_damage)
    _report(choice.url, None, ended, as_json=as_json, dry_run=False)


def hand_table_over(choice: TableChoice, *, dry_run: bool, as_json: bool) -> None:
    """Compact the file groups with keys that are in log files only; report them, or what was done.

    Raises TableLeased if a job holds the table, NotHandedOver, and what `compact_table` raises.
    """
    if dry_run:
        storage = choice.open()
        refuse_same_ids(storage)
        _report_log_only(choice.url, log_only_groups(storage), as_json=as_json)
        return
    with held(choice) as table:
        holder = CompactionHolder(table.storage, table.lock, table.check)
        holder.sweep_old()
        ended = hand_over(table.storage, holder, utc_now)
    _report(choice.url, None, ended, as_json=as_json, dry_run=False)
    if not as_json:
        Console().print("every key is in a base file")


def _report_log_only(url: str, found: list[LogOnly], *, as_json: bool) -> None:
    if as_json:
        groups = [
            {"partition": each.partition_path, "file_id": each.file_id, "keys": each.keys, "sample": each.sample}
            for each in found
        ]
        typer.echo(json.dumps({"table": url, "dry_run": True, "log_only": groups}, indent=2, ensure_ascii=False))
        return
    console = Console()
    if not found:
        console.print("every key is in a base file")
        return
    table = Table(box=box.SIMPLE, title=f"{len(found)} file groups have keys in log files only")
    for name in ("partition", "file group", "keys", "such as"):
        table.add_column(name)
    for each in found:
        table.add_row(each.partition_path, each.file_id, str(each.keys), each.sample)
    console.print(table)


def _report(url: str, proposal: Proposal | None, ended: list[Ended], *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_record(url, proposal, ended, dry_run=dry_run), indent=2, ensure_ascii=False))
        return
    console = Console()
    if dry_run:
        _show_due(proposal, console)
        return
    for each in ended:
        groups = "1 file group" if each.file_groups == 1 else f"{each.file_groups} file groups"
        console.print(f"compaction {each.compaction} {each.end}: {groups}, {each.rows} rows")
    if not ended:
        console.print("nothing is due")


def _record(url: str, proposal: Proposal | None, ended: list[Ended], *, dry_run: bool) -> dict[str, Any]:
    due = () if proposal is None else proposal.due
    return {
        "table": url,
        "dry_run": dry_run,
        "due": [
            {
                "partition": each.operation.partition_path,
                "file_id": each.operation.file_id,
                "log_files": len(each.operation.log_files),
                "oldest_log_seconds": round(each.age.total_seconds(), 3),
                "why": each.why,
            }
            for each in due
        ],
        "compactions": [
            {"instant": each.compaction, "end": each.end.value, "file_groups": each.file_groups, "rows": each.rows}
            for each in ended
        ],
    }


def _show_due(proposal: Proposal | None, console: Console) -> None:
    if proposal is None:
        console.print("nothing is due")
        return
    table = Table(box=box.SIMPLE, title=f"{len(proposal.due)} file groups are due")
    for name in ("partition", "file group", "log files", "oldest", "why"):
        table.add_column(name)
    for each in proposal.due:
        operation = each.operation
        age = format_duration(timedelta(seconds=round(each.age.total_seconds())))
        table.add_row(operation.partition_path, operation.file_id, str(len(operation.log_files)), age, each.why)
    console.print(table)


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RoundChoice:
    """A round, and this process's place among those that share it."""

    url: str
    number: int
    round_number: int
    index: int = 0
    of: int = 1
    storage_options: tuple[str, ...] = ()


def compact_round(choice: RoundChoice) -> None:
    """Share the round's work until nothing is left, or the round ends. A stop signal gives the claimed part back.

    Raises StoppedEarly after a signal, RoundEnded if this release must not work on the open round, UnsupportedTable,
    and what reading and writing a table raises.
    """
    with StopSignals(lambda _: None).installed():
        storage = TableChoice(choice.url, storage_options=choice.storage_options).open()
        failures = share_round(storage, choice.number, choice.round_number, index=choice.index, of=choice.of)
    result = "the round has ended" if failures is None else "nothing is left to do"
    extra = {"number": choice.number, "round": choice.round_number, "failed": failures or 0}
    log.info(result, extra=extra)
