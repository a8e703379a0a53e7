"""The stopwatch of a driver: when the stages of its start ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.cases.restart_driver import Stages


class Driver:
    """Something with stages."""

    def start(self, value: int) -> int:
        if value < 0:
            raise ValueError("negative")
        return value


@pytest.fixture
def driver_class() -> type[Driver]:
    return type("Other", (Driver,), {"start": Driver.start})


def marked(stages: Stages) -> list[str]:
    return [json.loads(line)["stage"] for line in stages.file.read_text().splitlines()]


def test_a_stage_is_marked_at_its_first_end_only(tmp_path: Path, driver_class: type[Driver]) -> None:
    stages = Stages(tmp_path / "marks")
    stages.around(driver_class, "start", before="prepared", after="started")
    assert [driver_class().start(1), driver_class().start(2)] == [1, 2]
    assert marked(stages) == ["prepared", "started"]


def test_a_call_that_fails_ends_no_stage(tmp_path: Path, driver_class: type[Driver]) -> None:
    stages = Stages(tmp_path / "marks")
    stages.around(driver_class, "start", before="prepared", after="started")
    with pytest.raises(ValueError, match="negative"):
        driver_class().start(-1)
    assert marked(stages) == ["prepared"]


def test_a_stage_may_wait_for_what_is_returned(tmp_path: Path, driver_class: type[Driver]) -> None:
    stages = Stages(tmp_path / "marks")
    stages.around(driver_class, "start", before="prepared", after="started", once=lambda value: value > 1)
    driver_class().start(1)
    assert marked(stages) == ["prepared"]
    driver_class().start(2)
    assert marked(stages) == ["prepared", "started"]
