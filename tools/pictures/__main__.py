"""Runs the demo's pipeline for a while and draws its panel, its dashboard and its table, as SVG files."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from rich.console import Console

from bucketingest.cli.demo.resources import rate_yaml
from bucketingest.cli.inspection.command import inspected
from bucketingest.cli.inspection.render import show
from bucketingest.cli.inspection.services import Rules
from bucketingest.cli.options import Address
from bucketingest.cli.panel import Latencies, panel
from bucketingest.cli.run import run_resource
from bucketingest.spec.reading.load import load_file
from bucketingest.storage import open_storage
from bucketingest.stream.report.progress import Progress
from devservers.process import free_ports
from devservers.prometheus import Prometheus
from monitoring.resource_board import RESOURCE
from pictures.dashboard import Data, draw

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
ROWS_PER_SECOND: Final = 20_000
INSTANTS: Final = 6
PENDING_LIMIT: Final = timedelta(minutes=10)
SERVICES: Final = "  services:\n    mode: inline\n    compaction:\n      logFiles: 20\n"
"""So that the picture shows compactions."""
PANELS: Final = (
    "Commit latency",
    "Commit duration",
    "Commits",
    "Rows per second",
    "Bytes written",
    "A micro-batch",
    "Log files not compacted",
    "Bytes not compacted",
    "Compactions per hour",
)
"""Those of a job that runs without the operator."""

SVG: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own form without its web font: a picture loads nothing."""


def main() -> None:
    """Run, then write `panel.svg`, `dashboard.svg` and `inspect.svg`."""
    parser = argparse.ArgumentParser(prog="pictures", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="how long the pipeline runs after its first commit")
    options = parser.parse_args()
    port = free_ports(1)[0]
    with (
        tempfile.TemporaryDirectory(prefix="bucketingest-") as folder,
        Prometheus([f"127.0.0.1:{port}"]) as prometheus,
    ):
        file = Path(folder) / "demo.yaml"
        file.write_text(rate_yaml(Path(folder), ROWS_PER_SECOND) + SERVICES, encoding="utf-8")
        latencies, newest, first = Latencies(), Progress(0.0), 0.0

        def enough(progress: Progress) -> bool:
            nonlocal newest, first
            newest = progress
            latencies.observe(progress)
            if progress.commits and not first:
                first = time.time()
            return bool(first) and time.time() > first + options.minutes * 60

        run_resource(load_file(file), stop_when=enough, listen=Address("127.0.0.1", port))
        data = Data(prometheus, {"namespace": "", "name": "demo"}, first, first + options.minutes * 60)
        draw(RESOURCE, PANELS, data, IMAGES / "dashboard.svg")
        table = f"{folder}/table"
        report = inspected(open_storage(table), Rules(), instants=INSTANTS, pending_limit=PENDING_LIMIT)
    _save("panel", 84, lambda console: console.print(panel(f"demo → {table}", newest, latencies)))
    _save("inspect", 120, lambda console: show(report, console))


def _save(name: str, width: int, draw: Callable[[Console], None]) -> None:
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        console = Console(width=width, record=True, file=nowhere, force_terminal=True)
        draw(console)
    IMAGES.mkdir(exist_ok=True)
    console.save_svg(str(IMAGES / f"{name}.svg"), title=f"bucketingest {name}", code_format=SVG, unique_id=name)


if __name__ == "__main__":
    main()
