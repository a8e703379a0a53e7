"""Turns results into what people read: a Markdown table and a plot."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl

from bench.results_format import Case, Machine, Measured

mpl.use("agg")  # before pyplot: there may be no display
from matplotlib import pyplot as plt

_HEAD: Final = (
    "Median of the repetitions, lowest to highest in brackets. CPU: seconds of the side's whole process tree (JVM and "
    "Python workers) per repetition, median. Written by `make bench`; how to run it and what the figures mean: "
    "`benchmarks/README.md`."
)
_OURS_COLOUR: Final = "#2a6fbb"
_PEER_COLOUR: Final = "#b0b4ba"


def write_report(cases: Sequence[Case], markdown: Path, plot: Path) -> None:
    """Write both files. `plot` is in the folder of `markdown`."""
    _plot([case for case in cases if case.unit == "rows/s"], plot)
    markdown.write_text(_markdown(cases, plot.name))


def _markdown(cases: Sequence[Case], plot_name: str) -> str:
    newest = max(cases, key=lambda case: case.measured_at).machine
    lines = [
        "# Benchmark results",
        "",
        _HEAD,
        "",
        f"![rows per second, ours and the peer]({plot_name})",
        "",
        "| case | ours | peer | ours is better by | CPU ours / peer |",
        "| --- | --- | --- | --- | --- |",
        *(_row(case) for case in cases),
        "",
        "Each case names its machine: only its two sides may be compared with each other. Versions of the newest: "
        + ", ".join(f"{name} {version}" for name, version in sorted(newest.versions.items()))
        + ".",
        "",
    ]
    for case in cases:
        lines += [f"## {case.case}", "", case.what, ""]
        lines += [f"* {note}" for note in case.notes]
        if case.load_average:
            loads = ", ".join(f"{load:.1f}" for load in case.load_average)
            lines.append(f"* load average of the machine before each repetition: {loads}")
        lines.append(f"* machine: {_machine(case.machine)}")
        lines += [f"* measured {case.measured_at}, runs in order: {_runs(case.ours)}; {_runs(case.peer)}", ""]
    return "\n".join(lines)


def _machine(machine: Machine) -> str:
    return f"{machine.cpu}, {machine.cores} cores, {machine.memory_bytes / 1024**3:.0f} GiB, {machine.kernel}"


def _row(case: Case) -> str:
    low, high = case.ratio_spread
    cpu = " / ".join(_cpu(side) for side in (case.ours, case.peer))
    ratio = f"{case.ratio:.2f}x ({low:.2f} to {high:.2f})"
    return f"| {case.case} | {_figure(case.ours, case.unit)} | {_figure(case.peer, case.unit)} | {ratio} | {cpu} |"


def _figure(side: Measured, unit: str) -> str:
    spread = f" ({side.min:,.0f} to {side.max:,.0f})" if len(side.runs) > 1 else ""
    return f"{side.name}: {side.median:,.0f} {unit}{spread}"


def _cpu(side: Measured) -> str:
    return f"{statistics.median(side.cpu_seconds):.1f} s" if side.cpu_seconds else "-"


def _runs(side: Measured) -> str:
    return f"{side.name} " + ", ".join(f"{run:,.0f}" for run in side.runs)


def _plot(cases: Sequence[Case], path: Path) -> None:
    """Bars of the medians with the range of the repetitions, one pair per case."""
    if not cases:
        return
    figure, axes = plt.subplots(figsize=(9, 1 + 0.8 * len(cases)), layout="constrained")
    for side, offset, colour in (("ours", -0.2, _OURS_COLOUR), ("peer", 0.2, _PEER_COLOUR)):
        measured: list[Measured] = [getattr(case, side) for case in cases]
        medians = [one.median / 1000 for one in measured]
        spread = [
            [(one.median - one.min) / 1000 for one in measured],
            [(one.max - one.median) / 1000 for one in measured],
        ]
        places = [index + offset for index in range(len(cases))]
        axes.barh(places, medians, 0.38, xerr=spread, color=colour, label=side, error_kw={"capsize": 3, "lw": 1})
        for place, one in zip(places, measured, strict=True):
            axes.text(one.max / 1000, place, f"  {one.median / 1000:,.0f}  {one.name}", va="center", fontsize=8)
    axes.set_yticks(range(len(cases)), [f"{case.case}\n{case.ratio:.1f}x" for case in cases])
    axes.invert_yaxis()
    axes.set_xlabel("thousand rows per second: median, whiskers from the slowest to the fastest repetition")
    axes.set_xlim(right=axes.get_xlim()[1] * 1.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=130)
    plt.close(figure)
