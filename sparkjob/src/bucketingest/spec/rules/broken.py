"""All rules of a spec, and which of them it breaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bucketingest.spec.reading.view import View
from bucketingest.spec.rules import files, formats, pod, running, source, table, tables
from bucketingest.spec.rules.finding import Finding

_RULES: Final = tuple(rule for part in (source, formats, files, table, pod, tables, running) for rule in part.RULES)


def broken_rules(document: Mapping[str, Any]) -> list[Finding]:
    """All rules that a spec breaks: the value of `spec` as JSON, defaults filled in. Parts may be absent or of a wrong
    type: the rules that need them find nothing then, since the schema's own check reports them.
    """
    view = View(document)
    return [finding for rule in _RULES for finding in rule(view)]
