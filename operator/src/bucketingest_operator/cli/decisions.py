"""Finds the decisions about one resource in operators' logs."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from bucketingest_operator.cli.stripping import strip_line
from bucketingest_operator.decision_log import EVENT

_KEPT_LINES: Final = 5000
_FIELDS: Final = ("timestamp", "namespace", "name", "observation", "plan")


@dataclass(slots=True)
class OperatorLog:
    """The newest log lines of operators about one resource."""

    namespace: str
    name: str
    decisions: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """Records of the decision log, with only the fields that a replay needs."""
    others: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))
    """Other lines that name the resource."""

    def take(self, lines: Iterable[str]) -> None:
        """Add the lines of one pod."""
        for line in lines:
            if self.name not in line:
                continue
            record = _record(line)
            if record is None:
                self.others.append(strip_line(line))
            elif (record.get("namespace", self.namespace), record.get("name", self.name)) != (
                self.namespace,
                self.name,
            ):
                continue
            elif record.get("event") == EVENT:
                self.decisions.append({key: record[key] for key in _FIELDS if key in record})
            else:
                self.others.append(strip_line(line))

    def ordered(self) -> list[dict[str, Any]]:
        """The decisions of all pods, oldest first."""
        return sorted(self.decisions, key=lambda record: str(record.get("timestamp", "")))


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
