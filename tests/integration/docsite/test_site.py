"""The documentation site is built without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_site_is_built_without_a_warning() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    command = [sys.executable, "-m", "docsite"]
    built = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    page = (ROOT / "build" / "site" / "sizing" / "index.html").read_text()
    # The place of a table is a comment; none may be left unfilled.
    assert "<!-- measured" not in page
    assert "upsert-11-columns" in page
    assert 'class="mermaid"' in (ROOT / "build" / "site" / "concepts" / "index.html").read_text()
