"""What both sides' servers share: one JSON request per line in, one JSON answer per line out. Standard library only.

Request   {"op": name, ...parameters}
Response  {"ok": true, ...} or {"ok": false, "error": text}
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]


def stay_on_core(core: str | None) -> None:
    """Bind this process, and every process that it starts, to one core; None: to none."""
    if core is not None:
        os.sched_setaffinity(0, {int(core)})


def serve(start: Callable[[], object]) -> None:
    """Build the object whose public methods are the operations, report ready, answer until the pipe closes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of Spark and the JVM is not an answer
    operations = start()
    answers.write(json.dumps({"ok": True}) + "\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            method: Callable[..., Answer] = getattr(operations, request.pop("op"))
            answer = {"ok": True, **method(**request)}
        except Exception:  # noqa: BLE001 - the client decides what a failure means
            answer = {"ok": False, "error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
