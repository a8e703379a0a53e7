"""`python -m monitoring`: write every generated file, or with `--check` name the checked-in files that differ."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from monitoring import grafana_rules, prometheus_files
from monitoring.grafana_dashboards import BOARDS, dashboard_json

FOLDER: Final = Path(__file__).resolve().parents[2] / "charts" / "bucketingest" / "files"


def contents() -> dict[str, str]:
    """Name of a file in the chart's `files/` → its content."""
    return {
        "rules.yaml": prometheus_files.rules_yaml(),
        "grafana-alerts.yaml": grafana_rules.rules_yaml(),
        "grafana-alerts-delete.yaml": grafana_rules.deletion_yaml(),
        **{f"{board.uid}.json": dashboard_json(board) for board in BOARDS},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare; 1 if `--check` finds a difference."""
    parser = argparse.ArgumentParser(prog="monitoring", description="Write rules, alerts and dashboards.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    check = parser.parse_args(arguments).check
    differing = []
    for name, text in contents().items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            differing.append(path.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and differing:
        sys.stderr.write(f"not as generated: {', '.join(differing)}; run: make monitoring\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
