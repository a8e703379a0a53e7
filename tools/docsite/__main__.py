"""`python -m docsite`: the documentation site in build/site, from docs/ with the numbers of the last benchmarks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from docsite.measured import NotMeasured, filled

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = tuple(
    ROOT / "benchmarks" / "results" / f"{name}.json" for name in ("local", "operator-local", "operator-copies-local")
)


def stage(target: Path) -> None:
    """Copy the pages to the input folder of the site. Raises NotMeasured."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "docs", target)
    results = [case for file in RESULTS for case in json.loads(file.read_text(encoding="utf-8"))]
    for page in target.rglob("*.md"):
        page.write_text(filled(page.read_text(encoding="utf-8"), results), encoding="utf-8")


def main() -> int:
    """Build; returns the generator's exit code, which treats a warning as an error."""
    try:
        stage(ROOT / "build" / "docs")
    except NotMeasured as error:
        sys.stderr.write(f"{error}\n")
        return 1
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(ROOT / "zensical.toml")]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
