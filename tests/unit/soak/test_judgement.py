"""The judge of the soak finds what it is there for, also what an upsert hides from readers, and Hudi's services do."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.rollback.rollback import roll_back
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant_time import TIME_LENGTH, format_time
from bucketingest.storage import open_storage
from bucketingest.write.instants.source_range import SourceRange
from soak.judge.judgement import Judgement, judge
from soak.judge.watch import Commit, TableWatch
from soak.traffic import SCHEMA
from support.oracle import hudi_rs
from support.tables.local_writer import PIPELINE, LocalWriter


def messages(start: int, end: int) -> pa.Table:
    """Messages of one topic partition; the key is the offset modulo 7."""
    rows: list[dict[str, Any]] = [
        {
            "id": f"key-{offset % 7}",
            "region": "r0",
            "ts": offset,
            "amount": offset,
            "note": "",
            "kafka_partition": 0,
            "kafka_offset": offset,
            "deleted": False,
        }
        for offset in range(start, end)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


class SoakedTable:
    """A table that the local writer filled with a micro-batch of offsets 0 to 9 and one of 10 to 19."""

    def __init__(self, path: Path) -> None:
        definition = TableDefinition(
            name="soak", record_key=("id",), partition_fields=("region",), ordering_field="ts", buckets=1
        )
        self.path = path
        self.watch = TableWatch(path, PIPELINE)
        self._definition = definition
        self.start()
        self.write((0, 10), messages(0, 10))
        self.write((10, 20), messages(10, 20))

    def start(self) -> None:
        self._writer = LocalWriter(self.path, self._definition, SCHEMA, deleted="deleted")

    def roll_back(self, commit: Commit) -> None:
        """What a rollback leaves of a completed instant."""
        (self.timeline / commit.instant.file_name).unlink()
        roll_back(open_storage(str(self.path)), commit.instant.request_time)

    def write(self, range_: tuple[int, int], rows: pa.Table) -> None:
        start, end = (json.dumps({"soak": {"0": offset}}, separators=(",", ":")) for offset in range_)
        source_range = SourceRange("kafka", start, end, "query", range_[0])
        self._writer.coordinator.run(source_range, lambda assignment: self._writer.write(rows, assignment))

    @property
    def timeline(self) -> Path:
        return self.path / ".hoodie" / "timeline"

    def logs(self) -> list[Path]:
        return sorted((self.path / "r0").glob(".*.log.*"), key=lambda path: path.name.split("_")[1])

    def compact(self, rows: pa.Table, wrote: list[Path]) -> None:
        """What a compaction that begins now leaves: a base file of these rows, each of the log file of its number."""
        instants = [path.name.split("_")[1][:TIME_LENGTH] for path in wrote]
        (file_id,) = {path.name[1:].partition("_")[0] for path in wrote}
        began, completed = (format_time(datetime.now(UTC) + n * timedelta(milliseconds=1)) for n in (0, 1))
        base = rows.add_column(0, "_hoodie_commit_time", pa.array(instants))
        pq.write_table(base, self.path / "r0" / f"{file_id}_0-0-0_{began}.parquet")
        (self.timeline / f"{began}_{completed}.commit").write_bytes(CommitMetadata().encode())

    def archive(self, commit: Commit) -> None:
        """What Hudi's archival leaves of a deltacommit."""
        completed = self.timeline / commit.instant.file_name
        time = commit.instant.request_time
        history = self.timeline / "history"
        history.mkdir()
        row = {
            "instantTime": time,
            "completionTime": commit.instant.completion_time,
            "action": "deltacommit",
            "metadata": completed.read_bytes(),
        }
        pq.write_table(pa.Table.from_pylist([row]), history / f"{time}_{time}_0.parquet")
        (history / "manifest_1").write_text(json.dumps({"files": [{"fileName": f"{time}_{time}_0.parquet"}]}))
        (history / "_version_").write_text("1")
        for path in self.timeline.glob(f"{time}*"):
            path.unlink()

    def judged(self, expected: pa.Table, end: int = 20, *, read: bool = True) -> Judgement:
        readers = {"hudi-rs": lambda: hudi_rs.snapshot(self.path)} if read else {}
        return judge(self.watch, expected, {"0": end}, readers)


@pytest.fixture
def table(tmp_path: Path) -> SoakedTable:
    return SoakedTable(tmp_path / "table")


def newest(end: int) -> pa.Table:
    """What the table must hold after all offsets before `end`."""
    return messages(end - 7, end)


def test_a_right_table_is_right(table: SoakedTable) -> None:
    judgement = table.judged(newest(20))
    assert judgement.wrong == []
    assert judgement.leftovers == []
    assert (judgement.commits, judgement.rows) == (2, 7)


def test_a_row_that_is_missing_is_lost(table: SoakedTable) -> None:
    judgement = table.judged(pa.concat_tables([newest(20), messages(20, 21).set_column(0, "id", pa.array(["key-x"]))]))
    assert judgement.lost == 1
    assert "1 missing row" in judgement.wrong[-1]


def test_rows_ingested_again_are_found_though_the_upsert_hides_them(table: SoakedTable) -> None:
    table.write((20, 30), messages(10, 20))
    judgement = table.judged(newest(20), end=30)
    assert (judgement.lost, judgement.doubled_or_phantom, judgement.different) == (0, 0, 0)
    assert any("does not have it" in wrong for wrong in judgement.wrong)


def test_a_file_that_lands_after_its_instant_completed_is_found(table: SoakedTable) -> None:
    (log, *_) = sorted((table.path / "r0").glob(".*.log.1_0-0-0"))
    shutil.copy(log, log.with_name(log.name.replace(".log.1_", ".log.2_")))
    judgement = table.judged(newest(20))
    assert any(".log.2_0-0-0" in wrong for wrong in judgement.wrong)


def test_offsets_that_no_instant_has_are_found(table: SoakedTable) -> None:
    judgement = table.judged(newest(20), end=25)
    assert judgement.wrong == ["the last instant ends at {'0': 20}, the topic at {'0': 25}"]


def test_a_completed_instant_that_is_gone_is_found(table: SoakedTable) -> None:
    commits = table.watch.commits()
    (table.path / ".hoodie" / "timeline" / commits[0].instant.file_name).unlink()
    judgement = table.judged(newest(20))
    assert any(wrong.startswith("completed instant") for wrong in judgement.wrong)
    assert any("begins at {'0': 10}" in wrong for wrong in judgement.wrong)


def test_a_row_in_a_base_file_and_in_a_log_file_below_it_is_there_once(table: SoakedTable) -> None:
    table.compact(newest(20), [table.logs()[1]] * 7)
    table.write((20, 22), messages(20, 22))
    judgement = table.judged(newest(22), end=22, read=False)
    assert judgement.wrong == []
    assert (judgement.bases, judgement.files) == (1, 1)


def test_a_row_in_a_base_file_and_in_its_log_file_on_top_of_it_is_doubled(table: SoakedTable) -> None:
    log = table.logs()[1]
    table.compact(newest(20), [log] * 7)
    (completed,) = table.timeline.glob(f"{log.name.split('_')[1][:TIME_LENGTH]}_*.deltacommit")
    request_time = completed.name.partition("_")[0]
    late = format_time(datetime.now(UTC) + timedelta(milliseconds=2))
    completed.rename(completed.with_name(f"{request_time}_{late}.deltacommit"))
    judgement = table.judged(newest(20), read=False)
    assert any("offset (0, 13) is in" in wrong and ".parquet and in" in wrong for wrong in judgement.wrong)


def test_what_follows_an_instant_that_was_rolled_back_may_come_again(table: SoakedTable) -> None:
    table.write((20, 30), messages(20, 30))
    table.roll_back(table.watch.commits()[1])
    assert "10 offsets of partition 0 never came again, the first is 10" in table.judged(newest(30), end=30).wrong
    table.start()
    table.write((10, 20), messages(10, 20))
    table.write((20, 30), messages(20, 30))
    judgement = table.judged(newest(30), end=30)
    assert judgement.wrong == []
    assert judgement.taken_back == 1


def test_a_row_that_a_compaction_left_out_is_found(table: SoakedTable) -> None:
    table.compact(newest(19).slice(1), [table.logs()[1]] * 6)
    judgement = table.judged(newest(20), read=False)
    assert judgement.wrong == ["offset (0, 19) is in no latest slice"]


def test_a_row_of_a_base_file_whose_instant_is_gone_is_found(table: SoakedTable) -> None:
    table.compact(newest(20), [table.logs()[1]] * 6 + [table.logs()[0]])
    judgement = table.judged(newest(20), read=False)
    assert len(judgement.wrong) == 1
    assert "offset (0, 19) is in" in judgement.wrong[0]
    assert judgement.wrong[0].endswith("does not have it")


@pytest.mark.parametrize("seen", [True, False])
def test_an_archived_instant_counts_whether_or_not_the_watch_had_seen_it(table: SoakedTable, seen: bool) -> None:
    (first, _) = TableWatch(table.path, PIPELINE).commits()
    if seen:
        table.watch.commits()
    table.archive(first)
    judgement = table.judged(newest(20), read=False)
    assert judgement.wrong == []
    assert (judgement.commits, judgement.archived) == (2, 1)


def test_a_file_of_no_instant_that_readers_take_for_archived_is_found(table: SoakedTable) -> None:
    (log, *_) = table.logs()
    time = log.name.split("_")[1][:TIME_LENGTH]
    shutil.copy(log, log.with_name(log.name.replace(time, f"{int(time) - 1}")))
    judgement = table.judged(newest(20), read=False)
    assert any("of no completed instant" in wrong for wrong in judgement.wrong)
