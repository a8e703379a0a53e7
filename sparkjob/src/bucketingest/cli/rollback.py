"""`bucketingest rollback`: finds, decides, shows, and unless it is a dry run acts. It needs neither Spark nor Java."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bucketingest.cli.errors import InstantHeld, RollbackRefused
from bucketingest.cli.table_options import lock_provider, storage_options
from bucketingest.hudi.lock.hudi_lock import LockSettings, open_lock
from bucketingest.hudi.table.table import load_table
from bucketingest.lease.record import ROLLBACK_OWNER, LeaseOwner, TableLeased
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import Storage, open_storage
from bucketingest.write.recovery.command import InstantOutcome, RollbackExecutor, refuse_unsupported
from bucketingest.write.recovery.decide import Choice, Left, Step, choose
from bucketingest.write.recovery.survey import survey

log = logging.getLogger(__name__)

_INSTANT = re.compile(r"\d{17}")


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """What the command line asks for."""

    table_url: str
    instants: tuple[str, ...] = ()
    """Request times; empty: whatever our failed attempts and unfinished rollbacks left."""
    force: bool = False
    dry_run: bool = False
    json: bool = False
    lock: str = "auto"
    """Which of Hudi's locks is taken while the timeline is changed."""
    storage_options: tuple[str, ...] = ()
    """Each of the form name=value."""


def roll_back_table(request: RollbackRequest) -> None:
    """Roll back, and report what was done with which instant and why.

    Raises typer's BadParameter, RollbackRefused (before anything was done, or because the table changed meanwhile),
    InstantHeld (after everything else was done), TableLeased, LockHeld, FencedOut, and what reading a table raises.
    """
    _check(request.instants)
    storage = open_storage(request.table_url, storage_options(request.storage_options))
    table = load_table(storage)
    refuse_unsupported(table)
    lock = open_lock(storage, table.properties, LockSettings(lock_provider(request.lock)), "bucketingest rollback")
    found = survey(storage, request.instants, datetime.now(UTC))
    for rollback in found.unreadable:
        log.warning(
            "left alone: a pending rollback without a plan, which Hudi skips",
            extra={"rollback": rollback.rollback_time, "problem": rollback.problem},
        )
    choices = choose(found.instants, found.wanted, force=request.force)
    outcomes: dict[Choice, InstantOutcome] = {}
    if not request.dry_run and not any(choice.left is Left.REFUSED for choice in choices):
        with _table_held(storage, choices, force=request.force):
            outcomes = {outcome.choice: outcome for outcome in RollbackExecutor(storage, lock.held).carry_out(choices)}
    _report(request, choices, outcomes)
    _raise(choices, outcomes)


@contextmanager
def _table_held(storage: Storage, choices: Sequence[Choice], *, force: bool) -> Iterator[None]:
    """Keep jobs from starting while our instants are rolled back."""
    if not any(choice.step is not Step.NOTHING and choice.found.pipeline is not None for choice in choices):
        yield
        return
    try:
        lease = TableLease.acquire(storage, LeaseOwner(ROLLBACK_OWNER), wait=timedelta(0))
    except TableLeased as held:
        if not force:
            raise
        log.warning("continuing although the table is held", extra={"reason": str(held)})
        yield
        return
    with lease:
        yield


def _check(instants: Sequence[str]) -> None:
    for instant in instants:
        if _INSTANT.fullmatch(instant) is None:
            raise typer.BadParameter(
                f"--instant: {instant!r} is not a request time of an instant: 17 digits, as 20261121081713004; "
                "`bucketingest inspect` lists them"
            )


def _report(request: RollbackRequest, choices: Sequence[Choice], outcomes: dict[Choice, InstantOutcome]) -> None:
    if request.json:
        typer.echo(as_json(request.table_url, choices, outcomes, dry_run=request.dry_run))
        return
    console = Console()
    if console.is_terminal:
        show(choices, outcomes, console, dry_run=request.dry_run)
        return
    for choice in choices:
        if choice not in outcomes:  # the others were logged when they were done
            found = choice.found
            what = choice.left.value if choice.left is not None else choice.step.value
            log.info(
                "left alone" if choice.left is not None else "would be done",
                extra={
                    "instant": found.request_time,
                    "pipeline": found.pipeline,
                    "what": what,
                    "reason": choice.reason,
                    "files": len(found.files),
                },
            )
    if not any(choice.step is not Step.NOTHING or choice.left is Left.HELD for choice in choices):
        log.info("nothing to roll back")


def _raise(choices: Sequence[Choice], outcomes: dict[Choice, InstantOutcome]) -> None:
    problems = [f"{each.choice.found.request_time}: {each.problem}" for each in outcomes.values() if each.problem]
    problems += [_line(choice) for choice in choices if choice.left is Left.REFUSED]
    if problems:
        raise RollbackRefused("not rolled back:\n" + "\n".join(f"  - {problem}" for problem in problems))
    held = [_line(choice) for choice in choices if choice.left is Left.HELD]
    if held:
        raise InstantHeld("left alone:\n" + "\n".join(f"  - {line}" for line in held))


def _line(choice: Choice) -> str:
    return f"instant {choice.found.request_time}: {choice.reason}"


_DONE = {
    Step.ROLL_BACK: "rolled back",
    Step.FINISH_ROLLBACK: "rollback finished",
    Step.COMPLETE: "completed",
    Step.SWEEP: "swept",
}
_STYLE = {Left.HELD: "yellow", Left.REFUSED: "red", Left.NOT_ASKED: "dim", Left.DONE: "dim"}


def as_json(url: str, choices: Sequence[Choice], outcomes: Mapping[Choice, InstantOutcome], *, dry_run: bool) -> str:
    """The plan, and for what was carried out its outcome."""
    instants = [_record(choice, outcomes.get(choice)) for choice in choices]
    return json.dumps({"table": url, "dry_run": dry_run, "instants": instants}, indent=2, ensure_ascii=False)


def _record(choice: Choice, outcome: InstantOutcome | None) -> dict[str, Any]:
    found = choice.found
    return {
        "instant": found.request_time,
        "action": found.action,
        "state": None if found.state is None else found.state.value,
        "pipeline": found.pipeline,
        "step": choice.step.value,
        "left": None if choice.left is None else choice.left.value,
        "reason": choice.reason,
        "pending_rollbacks": list(found.rollbacks),
        "files": list(found.files),
        "done": None if outcome is None or outcome.problem else outcome.did.value,
        "rollback": None if outcome is None else outcome.rollback_time,
        "deleted": [] if outcome is None else list(outcome.deleted),
        "problem": None if outcome is None else outcome.problem,
    }


def show(
    choices: Sequence[Choice], outcomes: Mapping[Choice, InstantOutcome], console: Console, *, dry_run: bool
) -> None:
    """One line per instant."""
    if not choices:
        console.print("[green]Nothing to roll back.[/]")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("instant", "state", "pipeline", "plan" if dry_run else "result", "files", "reason"):
        table.add_column(name, justify="right" if name == "files" else "left", overflow="fold")
    for choice in choices:
        found, outcome = choice.found, outcomes.get(choice)
        state = "-" if found.state is None else f"{found.action} {found.state.value}"
        files = str(len(found.files if outcome is None else outcome.deleted))
        reason = choice.reason if outcome is None or outcome.problem is None else outcome.problem
        style = _STYLE.get(choice.left, "") if choice.left is not None else ""
        cells = (found.request_time, state, found.pipeline or "-", _result(choice, outcome), files, reason)
        table.add_row(*map(escape, cells), style=style)
    console.print(table)
    if dry_run:
        console.print("[dim]A dry run: nothing was changed.[/]")


def _result(choice: Choice, outcome: InstantOutcome | None) -> str:
    if outcome is not None:
        return "failed" if outcome.problem is not None else _DONE[outcome.did]
    return choice.left.value if choice.left is not None else choice.step.value
