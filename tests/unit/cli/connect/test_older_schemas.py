"""A start that takes an older schema than the newest passes, and says why it does not take the newest."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from bucketingest.cli.connect.checks import _first_taken
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.stream.errors import InvalidTransform


def fits(compiled: Any) -> str:
    if compiled > 1:
        raise UnsupportedTable("/t", [f"schema {compiled}"])
    return f"fits {compiled}"


def inputs(*numbers: int) -> Any:
    def made(number: int) -> Callable[[], Any]:
        def make() -> Any:
            if number == 9:
                raise InvalidTransform("spec.transform.sql: no column n")
            return number

        return make

    return iter(cast(Any, [made(each) for each in numbers]))


def test_the_first_schema_that_a_start_takes_is_checked() -> None:
    assert _first_taken(inputs(1), fits).said == "fits 1"
    found = _first_taken(inputs(9, 3, 1, 0), fits)
    assert found.said == "fits 1; a start takes an older schema: spec.transform.sql: no column n"
    with pytest.raises(UnsupportedTable, match=re.escape("schema 3")):
        _first_taken(inputs(3, 2), fits)
