"""Runs promtool, which evaluates rules like Prometheus."""

from __future__ import annotations

import subprocess
from pathlib import Path

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
