"""Fills measured numbers into pages during the build, so that no page shows old ones.

A page has `<!-- measured: CASE CASE ... -->` in place of the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

PLACE: Final = re.compile(r"<!-- measured: ([a-z0-9 -]+) -->")


class NotMeasured(Exception):
    """A page asks for a benchmark that has no result."""


def filled(page: str, results: Sequence[dict[str, Any]]) -> str:
    """The page with its tables. `results`: from benchmarks/results/NAME.json. Raises NotMeasured."""
    by_name = {result["case"]: result for result in results}

    def table(place: re.Match[str]) -> str:
        missing = [case for case in place[1].split() if case not in by_name]
        if missing:
            raise NotMeasured(f"no result for {', '.join(missing)}: run make bench CASES=... or correct the page")
        return _table([by_name[case] for case in place[1].split()])

    return PLACE.sub(table, page)


def _number(value: float) -> str:
    """Without digits that no reader needs."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _table(results: Sequence[dict[str, Any]]) -> str:
    lines = ["| case | bucketingest | compared with |", "| --- | --- | --- |"]
    for result in results:
        ours, peer = (f"{_number(result[side]['median'])} {result['unit']}" for side in ("ours", "peer"))
        lines.append(f"| `{result['case']}` | {ours} | {peer} ({result['peer']['name']}) |")
    machine = results[0]["machine"]
    memory = machine["memory_bytes"] / 1024**3
    return "\n".join([*lines, "", f"Medians on {machine['cores']} cores ({machine['cpu']}), {memory:.0f} GiB."])
