"""Runs promtool, which evaluates rules like Prometheus."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from devservers.locations import require


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The output of promtool, both streams together, and its exit code."""
    command = [str(require("prometheus") / "usr" / "bin" / "promtool"), *map(str, arguments)]
    return subprocess.run(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300
    )


def rules_file() -> Path:
    """The rules that the chart installs."""
    return Path(__file__).parents[3] / "charts" / "bucketingest" / "files" / "rules.yaml"


def groups_in_order() -> list[str]:
    """Names of their groups in the file's order, for a test's `group_eval_order`: without it promtool's is random."""
    return [group["name"] for group in yaml.safe_load(rules_file().read_text())["groups"]]
