"""Shows what a rollback does or did: a table for a person, one JSON object for a program."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bucketingest.write.recovery.command import InstantOutcome
from bucketingest.write.recovery.decide import Choice, Left, Step

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
