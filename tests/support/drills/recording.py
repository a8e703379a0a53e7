"""Series as Prometheus would have scraped them, from the text of real metrics endpoints, for promtool to evaluate."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.monitoring.promtool import groups_in_order, promtool, rules_file

LEADER = 'bucketingest_operator_leader{job="bucketingest-operator"} 1\n'
"""Of an operator that does its work, with the label that Prometheus gives what it scrapes of operators."""
STEP_SECONDS = 30
"""Time between two scrapes, and between two evaluations of the rules."""


@dataclass
class Recording:
    """What was scraped, one step after the other. A series that was not there in a step has a gap there."""

    steps: int = 0
    series: dict[str, dict[int, float]] = field(default_factory=dict)

    def scrape(self, *texts: str | bytes, repeat: int = 1) -> None:
        """Take the answers of all endpoints of a moment; `repeat`: for as many steps, because nothing changes."""
        for _ in range(repeat):
            for text in texts:
                self._take(text if isinstance(text, str) else text.decode())
            self.steps += 1

    def _take(self, text: str) -> None:
        # In these texts no label has a blank behind its last quote, and no sample has a time of its own.
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith("bucketingest") and "_created" not in name:
                self.series.setdefault(name, {})[self.steps] = float(value)

    def values(self) -> list[dict[str, str]]:
        """As promtool's `input_series`."""
        return [
            {"series": name, "values": " ".join(_number(values.get(step)) for step in range(self.steps))}
            for name, values in self.series.items()
        ]


def _number(value: float | None) -> str:
    return "_" if value is None else f"{value:.10g}"


def judge(recording: Recording, expected: Mapping[str, Collection[str]], folder: Path) -> str:
    """What promtool finds wrong; "" if at each time exactly the expected alerts fire.

    Args:
        recording: The scraped series.
        expected: Time since the first scrape, such as "12m" → names of the alerts that fire then, without the prefix.
        folder: For files.
    """
    asked = [_asked(time, names) for time, names in expected.items()]
    document: dict[str, Any] = {
        "rule_files": [str(rules_file())],
        "evaluation_interval": f"{STEP_SECONDS}s",
        "group_eval_order": groups_in_order(),
        "tests": [
            {"interval": f"{STEP_SECONDS}s", "input_series": recording.values(), "promql_expr_test": asked},
        ],
    }
    file = folder / "drill.yaml"
    file.write_text(yaml.safe_dump(document))
    done = promtool("test", "rules", file)
    return "" if done.returncode == 0 else done.stdout


def _asked(time: str, names: Collection[str]) -> dict[str, Any]:
    samples = [{"labels": f'{{alertname="BucketIngest{name}"}}', "value": 1} for name in sorted(names)]
    return {"expr": 'group by (alertname) (ALERTS{alertstate="firing"})', "eval_time": time, "exp_samples": samples}
