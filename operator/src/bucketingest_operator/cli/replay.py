"""Replays decisions from the operator's observations, and shows where this version decides differently."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decision_log import decode_observation, encode_plan

_CONTEXT_LINES: Final = 2


@dataclass(frozen=True, slots=True)
class Replayed:
    """One replayed pass of the operator."""

    at: str
    """Time of the observation."""
    actions: tuple[str, ...]
    """The old decision, one or two words per action."""
    difference: tuple[str, ...] = ()
    """Lines of a diff of the plans, then against now; empty: the decision is the same."""
    unreadable: str = ""
    """Why it cannot be replayed: another version of the operator wrote it."""


def replay(records: Iterable[Mapping[str, Any]]) -> Iterator[Replayed]:
    """Replay each record of the decision log. Pure."""
    for record in records:
        plan = record.get("plan")
        if not isinstance(plan, dict) or not isinstance(record.get("observation"), dict):
            continue
        then = tuple(_words(action) for action in plan.get("actions", ()))
        at = str(record["observation"].get("now", record.get("timestamp", "")))
        try:
            seen = decode_observation(record["observation"])
        except (ValidationError, ValueError, TypeError, KeyError) as error:
            yield Replayed(at, then, unreadable=str(error).partition("\n")[0])
            continue
        yield Replayed(at, then, tuple(_difference(plan, encode_plan(reconcile(seen)))))


def _difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before, after = (json.dumps(each, indent=1, sort_keys=True, default=str).splitlines() for each in (then, now))
    return difflib.unified_diff(before, after, "then", "now", lineterm="", n=_CONTEXT_LINES)


def _words(action: Any) -> str:
    if not isinstance(action, dict):
        return str(action)
    name = str(action.get("action", "?"))
    if name == "WriteStatus":
        return f"WriteStatus phase={action.get('status', {}).get('phase')}"
    about = action.get("number") or action.get("reason") or ""
    return f"{name} {about}".strip()
