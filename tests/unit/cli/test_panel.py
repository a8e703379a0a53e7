"""The figures of the live panel."""

from dataclasses import replace

from rich.console import Console

from bucketingest.cli.panel import Latencies, figures, panel
from bucketingest.stream.report.progress import Progress
from bucketingest.write.coordinator_api import Commit

COMMIT = Commit("20261121081500000", "20261121081501500", 2, 500, 4, 1000, open_seconds=1.0, commit_seconds=0.5)
PROGRESS = Progress(
    running_for=75.0,
    commits=3,
    rows=12_345,
    deletes=7,
    rejected=2,
    size_bytes=2_500_000,
    rows_per_second=1234.4,
    last=COMMIT,
    last_commit_age=3.21,
    inflight_instant="20261121081507000",
    inflight_age=1.04,
    lag_offsets=4200,
    lag_seconds=2.5,
)


def test_every_figure_is_there() -> None:
    latencies = Latencies()
    latencies.observe(PROGRESS)
    assert dict(figures(PROGRESS, latencies)) == {
        "rows/s": "1,234",
        "rows": "12,345",
        "commit latency": "1.5 s last, 1.5 s median",
        "written": "2.5 MB",
        "inflight instant": "20261121081507000, 1.0 s",
        "deletes": "7",
        "last instant": "20261121081500000, 3.2 s",
        "commits": "3",
        "last commit": "500 rows in 4 files, 0.0 MB",
        "rejected": "2",
        "lag": "4,200 offsets, 2.5 s",
        "running for": "1 min 15 s",
    }


def test_before_the_first_commit_nothing_is_made_up() -> None:
    shown = dict(figures(Progress(0.2), Latencies()))
    assert shown["commit latency"] == "- last, - median"
    assert shown["last instant"] == shown["inflight instant"] == shown["lag"] == "-"


def test_the_lag_of_a_source_without_offsets_is_a_time() -> None:
    shown = dict(figures(Progress(0.2, lag_seconds=75.0), Latencies()))
    assert shown["lag"] == "1 min 15 s"


def test_a_commit_counts_once_however_often_it_is_seen() -> None:
    latencies = Latencies()
    for instant, seconds in (("1", 1.0), ("1", 1.0), ("1", 1.0), ("2", 2.0), ("3", 6.0)):
        commit = replace(COMMIT, instant_time=instant, open_seconds=seconds, commit_seconds=0.0)
        latencies.observe(replace(PROGRESS, last=commit))
    assert (latencies.last, latencies.median) == (6.0, 2.0)


def test_the_panel_fits_a_narrow_terminal_and_says_how_to_stop() -> None:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(panel("orders → s3://lake/orders", PROGRESS, Latencies()))
    text = console.export_text()
    assert "orders → s3://lake/orders" in text
    assert "Ctrl-C" in text
    assert "12,345" in text
