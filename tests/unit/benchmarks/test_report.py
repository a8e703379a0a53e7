from __future__ import annotations

from pathlib import Path

from bench.report import write_report
from bench.results_format import Case, Measured


def test_the_report_names_the_machine_of_each_case(tmp_path: Path) -> None:
    """Results stay in the file when another machine measures others."""
    measured = Case.of(
        case="upsert",
        what="rows",
        unit="rows/s",
        higher_is_better=True,
        rows=10,
        ours=Measured.of("ours", [400.0]),
        peer=Measured.of("peer", [100.0]),
        versions={"spark": "4.2.1"},
    )
    elsewhere = measured.machine.model_copy(update={"cpu": "another processor"})
    older = measured.model_copy(
        update={"case": "older", "machine": elsewhere, "measured_at": "2026-01-01T10:00:00+00:00"}
    )
    report = tmp_path / "local.md"
    write_report([older, measured], report, tmp_path / "local.png")
    of_older, of_newer = report.read_text().partition("## older")[2].split("## upsert")
    assert "* machine: another processor, " in of_older
    assert f"* machine: {measured.machine.cpu}, " in of_newer
