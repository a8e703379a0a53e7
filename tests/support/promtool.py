"""Runs promtool, which judges rules as Prometheus would evaluate them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from devservers.locations import require


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What promtool said, both streams together, and its exit code."""
    command = [str(require("prometheus") / "usr" / "bin" / "promtool"), *map(str, arguments)]
    return subprocess.run(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=300
    )


def rules_file() -> Path:
    """The rules that the chart installs."""
    return Path(__file__).parents[2] / "charts" / "bucketingest" / "files" / "rules.yaml"
