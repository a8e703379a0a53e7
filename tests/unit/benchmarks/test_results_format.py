from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bench.results_format import Case, Machine, Measured, load_cases, ratios, save_cases, this_machine

MACHINE = Machine(cpu="some", cores=2, memory_bytes=2**30, kernel="Linux 6", versions={"spark": "4.2.1"})


def case(name: str = "upsert", *, ours: list[float] | None = None, peer: list[float] | None = None) -> Case:
    mine = Measured.of("ours", ours or [400.0, 500.0, 450.0], [1.0, 2.0, 3.0])
    other = Measured.of("peer", peer or [100.0, 50.0, 90.0])
    ratio, spread = ratios(mine, other, higher_is_better=True)
    return Case(
        case=name,
        what="rows",
        unit="rows/s",
        higher_is_better=True,
        rows=10,
        ours=mine,
        peer=other,
        ratio=ratio,
        ratio_spread=spread,
        measured_at="2026-11-21T10:00:00+00:00",
        machine=MACHINE,
    )


def test_the_ratio_is_that_of_the_medians_and_its_spread_that_of_the_pairs() -> None:
    assert (case().ratio, case().ratio_spread) == (5.0, (4.0, 10.0))


def test_where_less_is_better_the_ratio_is_still_above_one_when_ours_is_better() -> None:
    ours, budget = Measured.of("worker", [128.0]), Measured.of("budget", [256.0])
    assert ratios(ours, budget, higher_is_better=False) == (2.0, (2.0, 2.0))


def test_sides_with_different_numbers_of_runs_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratios(Measured.of("a", [1.0, 2.0]), Measured.of("b", [1.0]), higher_is_better=True)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("median", 451.0, "median is 451.0, but the runs' is 450.0"),
        ("max", 499.0, "max is 499.0"),
        ("cpu_seconds", [1.0], "1 CPU times for 3 runs"),
        ("runs", [], "at least 1 item"),
    ],
)
def test_a_side_whose_summary_is_not_that_of_its_runs_is_refused(field: str, value: object, message: str) -> None:
    document = Measured.of("ours", [400.0, 500.0, 450.0]).model_dump() | {field: value}
    with pytest.raises(ValidationError, match=message):
        Measured.model_validate(document)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ratio", 6.0, "the medians and runs say 5.0"),
        ("ratio_spread", (4.0, 9.0), "the medians and runs say 5.0"),
        ("case", "Upsert 11", "should match pattern"),
        ("speed", 1, "not permitted"),
    ],
)
def test_a_case_that_contradicts_itself_or_has_another_format_is_refused(
    field: str, value: object, message: str
) -> None:
    document: dict[str, Any] = case().model_dump() | {field: value}
    with pytest.raises(ValidationError, match=message):
        Case.model_validate(document)


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    save_cases(tmp_path / "new" / "results.json", [case("a")])
    assert load_cases(tmp_path / "new" / "results.json") == [case("a")]
    assert isinstance(json.loads((tmp_path / "new" / "results.json").read_text()), list)


def test_a_case_measured_again_replaces_its_result_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save_cases(path, [case("a"), case("b")])
    assert save_cases(path, [case("a", ours=[800.0, 900.0, 850.0])]) == load_cases(path)
    assert [(one.case, one.ours.median) for one in load_cases(path)] == [("a", 850.0), ("b", 450.0)]


def test_no_file_is_no_results(tmp_path: Path) -> None:
    assert load_cases(tmp_path / "results.json") == []


def test_this_machine_has_a_cpu_and_memory() -> None:
    machine = this_machine({"python": "3.11"})
    assert machine.cpu
    assert machine.cores >= 1
    assert machine.memory_bytes > 2**20
