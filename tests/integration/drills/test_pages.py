"""Every runbook typed word by word while its alert fires: each command works, and prints what on-call has to see."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.naming import LogFileName, deterministic_file_id, join
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.table.table import TableDefinition, create_table
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import create_inflight, create_requested
from bucketingest.storage import open_storage
from support.drills.played import play
from support.drills.register import SITUATIONS
from support.drills.shell import lines_of, shell_for
from support.drills.typed import PAGES

FINDS_NOTHING = 1
"""How grep ends; then nothing is wrong."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with an instant that a job left open."""
    folder = tmp_path_factory.mktemp("tables") / "orders"
    storage = open_storage(str(folder))
    create_table(storage, TableDefinition("orders", ("id",), (), None, buckets=8))
    instant = format_time(datetime.now(UTC) - timedelta(minutes=40))
    create_requested(storage, instant)
    content = CommitMetadata(extra_metadata={"bucketingest.pipeline": "ingest/orders"}).encode()
    create_inflight(storage, instant, content=content)
    name = str(LogFileName(deterministic_file_id(1), instant, 1))
    create_marker(storage, instant, "", name)
    storage.create(join("", name), b"rows")
    long_ago = datetime.now(UTC).timestamp() - 1200
    for file in folder.rglob("*"):
        os.utime(file, (long_ago, long_ago))
    return folder


@pytest.mark.usefixtures("kubectl")
@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_typed_as_it_stands_there(page: str, table: Path, tmp_path: Path) -> None:
    drill = PAGES[page]
    (situation,) = [each for each in SITUATIONS if each.story == drill.story]
    for part in drill.prints:
        assert any(part in line for line in lines_of(page)), f"{page} has no such command: {part}"
    lines = [line for line in lines_of(page) if drill.types(line)]
    with shell_for(play(situation.plays), tmp_path, str(table)) as shell:
        for typed in shell.type(*lines):
            words = [words for part, words in drill.prints.items() if part in typed.line]
            allowed = {ExitCode.OK, ExitCode.FINDINGS} if "inspect" in typed.line else {ExitCode.OK}
            if "| grep" in typed.line and not words:
                allowed.add(FINDS_NOTHING)  # type: ignore[arg-type]
            assert typed.code in allowed, typed
            for each in words:
                assert each in typed.output, typed
