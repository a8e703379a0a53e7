"""Rows from files in a directory: all of them, once, with what is corrupt among the dead letters."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import CheckpointLost
from support.jobs.stream_runs import Lake, Runner
from support.oracle.compare import assert_same_rows

SCHEMA = "id STRING, at TIMESTAMP, quantity INT"
AT = "2026-01-01T12:00:00Z"


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    folder = tmp_path / "incoming"
    folder.mkdir()
    return folder


def resource(
    lake: Lake, incoming: Path, kind: str, schema: str | None = SCHEMA, *, services: Any = None, **files: Any
) -> BucketIngest:
    source = {"path": str(incoming), "format": kind, **({"schema": schema} if schema else {}), **files}
    spec = {} if services is None else {"services": services}
    return lake.resource({"files": source}, table={"recordKey": ["id"], "orderingField": "at"}, **spec)


def quantities(lake: Lake) -> dict[str, int | None]:
    return {row["id"]: row["quantity"] for row in lake.rows().to_pylist()}


def test_json_lines_arrive_and_corrupt_ones_are_dead_letters(run: Runner, lake: Lake, incoming: Path) -> None:
    corrupt = ["no json", '{"id": "x", "at": "yesterday"}', '{"id": "y", "quantity": "many"}', "[1, 2]"]
    good = [f'{{"id": "ä{number}", "at": "{AT}", "quantity": {number}}}' for number in range(5)]
    (incoming / "one.json").write_text("\n".join([*good[:2], *corrupt, "", *good[2:]]) + "\n")

    progress = run.once(resource(lake, incoming, "json"))

    assert quantities(lake) == {f"ä{number}": number for number in range(5)}
    assert sorted(each["value"].decode() for each in lake.letters()) == sorted(corrupt)
    assert {(each["reason"], each["topic"], each["offset"]) for each in lake.letters()} == {("decode", None, None)}
    assert progress.rejected == len(corrupt)


def test_a_run_that_ends_with_its_input_does_the_table_services_that_are_due(
    run: Runner, lake: Lake, incoming: Path
) -> None:
    services = {"mode": "inline", "compaction": {"logFiles": 2}}
    for number in range(2):
        (incoming / f"{number}.json").write_text(f'{{"id": "a", "at": "{AT}", "quantity": {number}}}\n')
        assert not list(lake.table.rglob("*.parquet"))
        run.once(resource(lake, incoming, "json", services=services))

    assert len(list(lake.table.glob("*.parquet"))) == 1
    assert quantities(lake) == {"a": 1}


def test_a_partition_with_a_name_that_the_file_system_cannot_hold_is_a_dead_letter(
    run: Runner, lake: Lake, incoming: Path
) -> None:
    rows = [{"id": "good", "place": "here"}, {"id": "bad", "place": "x" * 256}]
    (incoming / "one.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    source = {"path": str(incoming), "format": "json", "schema": "id STRING, place STRING"}

    run.once(lake.resource({"files": source}, table={"recordKey": ["id"], "partitionBy": ["place"]}))

    assert lake.rows()["id"].to_pylist() == ["good"]
    (letter,) = lake.letters()
    assert letter["reason"] == "partitionPath"
    assert "more than 255 bytes" in letter["detail"]


def test_csv_with_a_header_arrives_and_corrupt_lines_are_dead_letters(run: Runner, lake: Lake, incoming: Path) -> None:
    corrupt = ["c,not a time,1", f"d,{AT},many", f"e,{AT},1,too many columns", "f"]
    lines = ["id,at,quantity", f"a,{AT},1", *corrupt, f'"b, with ""quotes""",{AT},']
    (incoming / "one.csv").write_text("\n".join(lines) + "\n")

    run.once(resource(lake, incoming, "csv", options={"header": "true", "escape": '"'}))

    assert quantities(lake) == {"a": 1, 'b, with "quotes"': None}
    assert sorted(each["value"].decode() for each in lake.letters()) == corrupt


def test_parquet_files_bring_their_schema_and_new_files_come_in_a_second_run(
    run: Runner, lake: Lake, incoming: Path
) -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("quantity", pa.int32()),
            ("parts", pa.list_(pa.float64())),
        ]
    )

    def file(name: str, *numbers: int) -> pa.Table:
        rows = [{"id": f"k{each}", "at": at, "quantity": each, "parts": [each / 3] * (each % 3)} for each in numbers]
        table = pa.Table.from_pylist(rows, schema)
        (incoming / name).parent.mkdir(exist_ok=True)
        pq.write_table(table, incoming / name)
        return table

    wanted = resource(lake, incoming, "parquet", schema=None, maxFilesPerTrigger=2)
    first = [file("a.parquet", 1, 2), file("b.parquet", 3), file("deeper/c.parquet", 4, 5)]
    assert run.once(wanted).batches == 2
    second = file("d.parquet", 2, 6)
    assert run.once(wanted).rows == 2

    expected = pa.concat_tables([pa.concat_tables(first).filter(pa.compute.field("id") != "k2"), second])
    assert_same_rows(lake.rows(), expected, key=["id"])


def test_parquet_files_are_read_on_arrow_until_one_is_sparks(
    run: Runner, lake: Lake, incoming: Path, caplog: pytest.LogCaptureFixture
) -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def file(name: str, *numbers: int, **options: Any) -> None:
        columns = {"id": [f"k{each}" for each in numbers], "at": [at] * len(numbers), "quantity": numbers}
        schema = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("quantity", pa.int32())])
        pq.write_table(pa.table(columns, schema=schema), incoming / name, **options)

    def files(**table: Any) -> BucketIngest:
        source = {"path": str(incoming), "format": "parquet", "schema": SCHEMA}
        keys = {"recordKey": ["id"], "orderingField": "at", "deleteWhen": "quantity < 0"}
        sql = "SELECT id, at, quantity * 10 AS quantity FROM source WHERE quantity <> 5"
        return lake.resource({"files": source}, table=keys | table, transform={"sql": sql})

    with caplog.at_level("INFO"):
        file("a.parquet", 1, 2, 5)
        file("b.parquet", 3)
        assert run.once(files()).rows == 3
        file("c.parquet", -1, 4)
        assert run.once(files()).deletes == 1
        assert "decoding on Arrow: Parquet files, with spec.transform.sql and spec.table.deleteWhen" in caplog.messages
        (incoming / "no-byte.parquet").touch()
        assert run.once(files()).rows == 0
        assert "files are left to Spark until the next start" not in caplog.messages
        file("d.parquet", 4, 6, use_deprecated_int96_timestamps=True)
        assert run.once(files()).rows == 2
        assert "files are left to Spark until the next start" in caplog.messages

    assert quantities(lake) == {"k1": 10, "k2": 20, "k3": 30, "k4": 40, "k6": 60}
    assert lake.rows()["at"].to_pylist() == [at] * 5


def test_without_its_checkpoint_a_file_source_is_refused_with_what_can_be_done(
    run: Runner, lake: Lake, incoming: Path
) -> None:
    wanted = resource(lake, incoming, "json")
    (incoming / "one.json").write_text(f'{{"id": "a", "at": "{AT}", "quantity": 1}}\n')
    run.once(wanted)
    instants = lake.instants()
    shutil.rmtree(lake.checkpoint)

    with pytest.raises(
        CheckpointLost,
        match=r'the table has the files up to \{"digest":"[0-9a-f]{32}","logOffset":0\} of the file source.s log, and '
        r"no checkpoint is left there\. Without it nothing says which files are in the table\. Restore the "
        r"checkpoint directories, or give the pipeline another name: then all files are ingested again, ",
    ):
        run.once(wanted)

    assert lake.instants() == instants
    assert quantities(lake) == {"a": 1}
