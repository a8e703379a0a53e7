"""A clustering of another writer that leaves out rows which readers have seen: it is found, and the rows are ingested
again.
"""

from __future__ import annotations

import pytest

from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import PositionLost
from bucketingest.write.instants.journal import Journal
from support.tables.clusterings import complete_clustering, request_clustering
from support.tables.instants.decided_commits import ALL
from support.tables.other_writers import archive, commit, next_time
from support.tables.table_runs import PIPELINE, TestTable, offsets
from support.tables.write_plans import row

AGAIN = (offsets(2, 3), [row("k0", amount=3)])
"""Into a file group that is there."""
NEXT = (offsets(3, 4), [row("k0", amount=4)])
Groups = dict[tuple[str, str], list[str]]


@pytest.fixture
def seen(table: TestTable) -> list[str]:
    """The table's two instants in the same file groups."""
    attempt = table.attempt()
    attempt.run(*ALL[0])
    attempt.run(*AGAIN)
    return [instant.request_time for instant in table.timeline().completed_commits]


def files_of(table: TestTable, *, without: str = "") -> Groups:
    """(partition path, file id) -> names of the files of every file group; `without` those of an instant."""
    return {
        (group.partition_path, group.file_id): [
            str(file.name)
            for each in group.slices
            for file in (each.base_file, *each.log_files)
            if file is not None and file.instant != without
        ]
        for group in load_file_view(table.storage, table.timeline()).groups
    }


def cluster(table: TestTable, files: Groups) -> str:
    time = next_time(table)
    request_clustering(table.storage, time, files, files=files)
    complete_clustering(table.storage, time, next_time(table, time), files)
    return time


def test_a_clustering_whose_plan_leaves_rows_out_is_found_by_the_next_look(table: TestTable, seen: list[str]) -> None:
    attempt = table.attempt()
    cluster(table, files_of(table, without=seen[1]))
    with pytest.raises(PositionLost, match=seen[1]):
        attempt.run(*NEXT)
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.run(*AGAIN)
    again.run(*NEXT)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP, "its rows are missed once"


@pytest.mark.parametrize("archived", [False, True], ids=["on the timeline", "archived"])
def test_one_that_came_while_no_attempt_ran_is_found_at_the_next_start(
    table: TestTable, seen: list[str], archived: bool
) -> None:
    cluster(table, files_of(table, without=seen[0]))
    if archived:
        commit(table, CommitMetadata())
        archive(table)
        commit(table, CommitMetadata())
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    assert Journal(table.storage, PIPELINE).is_overtaken(seen[0])
    again.go_on(ALL[0], AGAIN)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP, "its rows are missed once"


@pytest.mark.usefixtures("seen")
@pytest.mark.parametrize("files", ["whole", "no plan"])
def test_one_that_has_all_rows_is_none(table: TestTable, files: str) -> None:
    """As each clustering of ours, which has no plan on the timeline."""
    attempt = table.attempt()
    merged = files_of(table)
    if files == "whole":
        cluster(table, merged)
    else:
        time = next_time(table)
        request_clustering(table.storage, time, ())
        complete_clustering(table.storage, time, next_time(table, time), merged)
    attempt.run(*NEXT)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP
