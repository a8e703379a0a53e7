"""Draws panels of a dashboard with what a real Prometheus answers to their queries: no Grafana is needed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from cycler import cycler
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from devservers.prometheus import Prometheus
from monitoring.model import Board, Panel, Query, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

mpl.use("svg")

POINTS: Final = 120
COLUMNS: Final = 3
_FACTORS: Final[Mapping[Unit, Sequence[tuple[float, str]]]] = {
    "s": ((60, " min"), (1, " s"), (0.001, " ms")),
    "bytes": ((2**20, " MiB"), (2**10, " KiB"), (1, " B")),
    "Bps": ((2**20, " MiB/s"), (2**10, " KiB/s"), (1, " B/s")),
    "rps": ((1e3, "k rows/s"), (1, " rows/s")),
    "percentunit": ((0.01, "%"),),
}
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bucketingest",
    "font.family": "sans-serif",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#c7d0d9",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#e9edf2",
    "axes.prop_cycle": cycler(color=["#56a64b", "#f2cc0c", "#5794f2", "#ff780a", "#e02f44", "#b877d9"]),
}


@dataclass(frozen=True, slots=True)
class Data:
    """What is drawn: answers of a Prometheus, for values of the board's variables, in a time in Unix seconds."""

    prometheus: Prometheus
    variables: Mapping[str, str]
    start: float
    end: float

    def series(self, query: Query) -> Iterator[tuple[str, list[float], list[float]]]:
        """Label, minutes since the start and values of each series."""
        expr = query.expr.replace("$__rate_interval", "20s")
        for name, value in self.variables.items():
            expr = expr.replace(f"${name}", value)
        for found in self.prometheus.query_range(expr, self.start, self.end, (self.end - self.start) / POINTS):
            label = query.legend
            for name, value in found["metric"].items():
                label = label.replace(f"{{{{{name}}}}}", value)
            minutes = [(float(time) - self.start) / 60 for time, _ in found["values"]]
            yield label, minutes, [float(value) for _, value in found["values"]]


def draw(board: Board, titles: Sequence[str], data: Data, file: Path) -> None:
    """Write an SVG with the panels of these titles, in this order.

    Raises ValueError for a title that the board lacks, and for a panel without data.
    """
    panels = {panel.title: panel for row in board.rows for panel in row.panels}
    if missing := [title for title in titles if title not in panels]:
        raise ValueError(f"the dashboard has no panel {', '.join(missing)}")
    rows = math.ceil(len(titles) / COLUMNS)
    with mpl.rc_context(_STYLE):
        figure, grid = plt.subplots(rows, COLUMNS, figsize=(12, 2.1 * rows), layout="constrained", squeeze=False)
        for axes in grid.flat[len(titles) :]:
            axes.set_axis_off()
        for axes, title in zip(grid.flat, titles, strict=False):
            _draw_panel(axes, panels[title], data)
        file.parent.mkdir(exist_ok=True)
        figure.savefig(file, metadata={"Date": None})
        plt.close(figure)


def _draw_panel(axes: Axes, panel: Panel, data: Data) -> None:
    drawn = [series for query in panel.queries for series in data.series(query)]
    if not drawn:
        raise ValueError(f"panel {panel.title!r} has no data")
    for label, minutes, values in drawn:
        axes.plot(minutes, values, label=label, linewidth=1.2)
    axes.set_title(panel.title)
    axes.set_xlim(0, (data.end - data.start) / 60)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda minutes, _: f"{minutes:g} min"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: with_unit(value, panel.unit)))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.legend(frameon=False, fontsize=7, loc="upper left", ncols=3, bbox_to_anchor=(0, -0.12), borderaxespad=0)


def with_unit(value: float, unit: Unit) -> str:
    """A value with its unit, as short as Grafana shows it. Pure."""
    for factor, word in _FACTORS.get(unit, ()):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{word}"
    return f"{value:.3g}"
