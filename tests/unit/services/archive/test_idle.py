"""A pipeline that writes nothing is retired only if all its rows are in the table."""

from __future__ import annotations

import pytest

from bucketingest.services.clean_and_archive import retire
from bucketingest.write.instants.journal import Journal
from support.tables.other_writers import roll_back_completed
from support.tables.table_runs import PIPELINE, TestTable, offsets
from support.tables.write_plans import row


@pytest.mark.parametrize("lost", [False, True])
def test_a_pipeline_whose_rows_are_to_be_ingested_again_is_not_retired(lost: bool) -> None:
    """Its position would be kept behind the hole, and the rows in it never come again."""
    table = TestTable()
    attempt = table.attempt()
    for number in range(3):
        attempt.run(offsets(number, number + 1), [row(f"k{number}")])
    second = table.timeline().completed_commits[1].request_time
    newest = table.timeline().completed_commits[-1].request_time
    journal = Journal(table.storage, PIPELINE)
    journal.forget(journal.instants())
    if lost:
        roll_back_completed(table, second)
    retired = retire(table.storage, table.timeline(), PIPELINE, newest, lambda: None)
    assert retired is not lost
    assert (Journal(table.storage, PIPELINE).kept_position() is None) is lost
