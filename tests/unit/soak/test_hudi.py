"""The soak's neighbour does with each write what it is asked to, and archives nothing before it has compacted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from soak.fault_plan import Service
from soak.hudi import ATTEMPTS, HudiNeighbour
from support.oracle.client import HudiOracle
from support.oracle.environment import OracleError
from support.oracle.writer import HudiWriter


class FakeOracle:
    """Takes writes, the first of which fail."""

    def __init__(self, failures: int = 0) -> None:
        self._failures = failures
        self.options: list[dict[str, str]] = []

    def upsert(self, path: Path, rows: pa.Table, writer: HudiWriter) -> None:
        if self._failures:
            self._failures -= 1
            raise OracleError("a concurrent commit")
        self.options.append(writer.options("upsert"))


def neighbour(oracle: FakeOracle) -> HudiNeighbour:
    found = HudiNeighbour(Path("unused"), lambda _: None)
    found._oracle = cast("HudiOracle", oracle)
    return found


def services(options: dict[str, str]) -> list[bool]:
    names = ("hoodie.compact.inline", "hoodie.clean.automatic", "hoodie.archive.automatic")
    return [options[name] == "true" for name in names]


@pytest.mark.parametrize(
    ("service", "wanted"),
    [(Service.NONE, [False] * 3), (Service.COMPACT, [True, False, False]), (Service.CLEAN, [True, True, False])],
)
def test_each_service_includes_those_before_it(service: Service, wanted: list[bool]) -> None:
    oracle = FakeOracle()
    neighbour(oracle).upsert(service)
    assert [services(options) for options in oracle.options] == [wanted]


def test_the_first_visit_that_archives_compacts_in_a_write_before() -> None:
    oracle = FakeOracle()
    visited = neighbour(oracle)
    for _ in range(2):
        visited.upsert(Service.ARCHIVE)
    assert [services(options) for options in oracle.options] == [[True, False, False], [True] * 3, [True] * 3]
    assert visited.services == {"compaction": 1, "archival": 2}
    rows: list[dict[str, Any]] = visited.expected().to_pylist()
    assert {row["note"] for row in rows} == {f"write {number} of Hudi" for number in (1, 2, 3)}


def test_a_write_that_fails_is_repeated_and_gives_up_in_the_end() -> None:
    patient = neighbour(FakeOracle(ATTEMPTS - 1))
    patient.upsert(Service.NONE)
    assert len(patient.failures) == ATTEMPTS - 1
    with pytest.raises(OracleError):
        neighbour(FakeOracle(ATTEMPTS)).upsert(Service.NONE)
