"""A demo whose table is not what it wrote: it says so, with an exit code of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bucketingest.cli.demo import command
from bucketingest.cli.main import call
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.table.table import TableDefinition, create_table
from bucketingest.storage import open_storage


def test_a_table_whose_rows_are_gone_when_it_is_read_back_is_a_wrong_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def loses_all(directory: Path, *_: object) -> Any:
        create_table(open_storage(str(directory / "table")), TableDefinition("demo", ("sensor",), (), None, buckets=4))

    monkeypatch.setattr(command, "_ingest", loses_all)
    monkeypatch.setattr(command, "check_java", lambda: None)
    assert call(["demo", "--directory", str(tmp_path)]) == ExitCode.WRONG_RESULT
    assert f"{tmp_path}/table" in capsys.readouterr().err
