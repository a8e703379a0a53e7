"""The table of the commit benchmarks: except for the simulated parts it must equal a table that was really written."""

from __future__ import annotations

from pathlib import Path

from bench.cases.simulated_table import SimulatedTable
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import open_storage


def test_a_simulated_commit_names_a_file_in_each_file_group(tmp_path: Path) -> None:
    table = SimulatedTable(tmp_path / "table", file_groups=1001)
    times = table.commit()
    assert min(times.begin, times.commit) > 0
    storage = open_storage(str(table.path))
    (instant,) = Timeline.load(storage).completed_commits
    metadata = CommitMetadata.decode(storage.get(path_of(instant)), "here")
    assert len(set(metadata.files)) == 1001
    assert len(metadata.write_stats) == 2
    assert not list((table.path / ".hoodie" / ".temp").iterdir())


def test_the_files_of_the_last_commit_are_committed_file_groups_to_a_new_attempt(tmp_path: Path) -> None:
    table = SimulatedTable(tmp_path / "table", file_groups=20)
    table.commit()
    table.commit(3)
    table.commit()
    table.touch_files()
    assert len(table.open().index.known) == 20
