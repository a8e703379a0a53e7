"""Rows from files in a directory: all of them, once, with what is corrupt among the dead letters."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Status
from bucketingest.storage import open_storage
from bucketingest.stream.errors import NoSourceFiles, SourceFilesChanged
from bucketingest.stream.files import writing
from bucketingest.stream.files.log import FileBatch, FilesLog
from bucketingest.stream.files.source_file import SourceFile
from bucketingest.stream.micro_batch import write_letters
from bucketingest.stream.report.job_report import progress_report
from bucketingest.stream.report.progress import Progress
from bucketingest.write.errors import RowsRejected
from bucketingest_operator.decide.status import Draft
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
    places = {each["value"].decode(): each["detail"].partition(": ")[0] for each in lake.letters()}
    assert places["no json"] == f"{incoming}/one.json, line 3"
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

    run.once(resource(lake, incoming, "csv", options={"header": "true"}))

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


def test_parquet_files_with_sql_on_arrow(
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
        assert "decoding on Arrow: parquet files, with spec.transform.sql and spec.table.deleteWhen" in caplog.messages
        (incoming / "no-byte.parquet").touch()
        assert run.once(files()).rows == 0
        file("d.parquet", 4, 6, use_deprecated_int96_timestamps=True)
        assert run.once(files()).rows == 2

    assert quantities(lake) == {"k1": 10, "k2": 20, "k3": 30, "k4": 40, "k6": 60}
    assert lake.rows()["at"].to_pylist() == [at] * 5


def test_no_checkpoint_is_needed(run: Runner, lake: Lake, incoming: Path) -> None:
    wanted = resource(lake, incoming, "json")
    (incoming / "one.json").write_text(f'{{"id": "a", "at": "{AT}", "quantity": 1}}\n')
    run.once(wanted)
    assert not lake.checkpoint.exists()
    (incoming / "two.json").write_text(f'{{"id": "b", "at": "{AT}", "quantity": 2}}\n')

    assert run.once(wanted).rows == 1

    assert quantities(lake) == {"a": 1, "b": 2}


def parquet(path: Path, at: int, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    os.utime(path, (1_700_000_000 + at,) * 2)


def test_of_equal_keys_the_row_of_the_later_file_counts_whatever_packs_the_tasks(
    run: Runner, lake: Lake, incoming: Path
) -> None:
    """The later file is larger, or smaller, or of the same time and a name behind; and in a file the later row."""
    many = [f"x{number}" for number in range(2000)]
    parquet(incoming / "a.parquet", 1, id=["larger", "same", "same"], v=["old", "old", "older"])
    parquet(incoming / "b.parquet", 2, id=["larger", *many, "smaller"], v=["new", *many, "old"])
    parquet(incoming / "c.parquet", 3, id=["smaller"], v=["new"])
    parquet(incoming / "0.parquet", 4, id=["name"], v=["old"])
    parquet(incoming / "1.parquet", 4, id=["name"], v=["new"])

    source = {"path": str(incoming), "format": "parquet"}
    assert run.once(lake.resource({"files": source}, table={"recordKey": ["id"]})).batches == 1

    rows = {row["id"]: row["v"] for row in lake.rows().to_pylist()}
    assert {key: rows[key] for key in ("larger", "smaller", "name", "same")} == {
        "larger": "new",
        "smaller": "new",
        "name": "new",
        "same": "older",
    }


def test_the_order_of_files_is_kept_through_sql_that_spark_evaluates(run: Runner, lake: Lake, incoming: Path) -> None:
    parquet(incoming / "a.parquet", 1, id=["k"], v=["old"])
    parquet(incoming / "b.parquet", 2, id=["k"] + [f"x{number}" for number in range(3000)], v=["new"] + ["x"] * 3000)
    source = {"path": str(incoming), "format": "parquet"}
    sql = {"sql": "SELECT id, regexp_replace(v, 'x', 'y') AS v FROM source"}

    run.once(lake.resource({"files": source}, table={"recordKey": ["id"]}, transform=sql))

    rows = {row["id"]: row["v"] for row in lake.rows().to_pylist()}
    assert (rows["k"], rows["x7"]) == ("new", "y")


def test_bad_rows_and_bad_files_are_dead_letters_and_the_others_are_rows(
    run: Runner, lake: Lake, incoming: Path
) -> None:
    text = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"caf\xe9", b"c"]).buffers())
    parquet(incoming / "dt=2026-01-01" / "bytes.parquet", 1, id=text, n=[1, 2, 3])
    parquet(incoming / "dt=2026-01-02" / "type.parquet", 2, id=["d"], n=["many"])
    (incoming / "dt=2026-01-03").mkdir()
    (incoming / "dt=2026-01-03" / "damaged.parquet").write_bytes(b"PAR1 is not enough")
    parquet(incoming / "dt=2026-01-04" / "good.parquet", 4, id=["e"], n=[5])
    source = {"path": str(incoming), "format": "parquet", "schema": "id STRING, n BIGINT, dt DATE"}
    wanted = lake.resource({"files": source}, table={"recordKey": ["id"]})

    assert run.once(wanted).rejected == 3

    rows = {row["id"]: (row["n"], str(row["dt"])) for row in lake.rows().to_pylist()}
    assert rows == {"a": (1, "2026-01-01"), "c": (3, "2026-01-01"), "e": (5, "2026-01-04")}
    letters = {each["detail"].removeprefix(f"{incoming}/"): each for each in lake.letters()}
    assert sorted((each["reason"], detail[:60]) for detail, each in letters.items()) == [
        ("decode", "dt=2026-01-01/bytes.parquet, row 2, column id: a byte that i"),
        ("file", "dt=2026-01-02/type.parquet: column n: the file has STRING, t"),
        ("file", "dt=2026-01-03/damaged.parquet: is no Parquet file: Parquet m"),
    ]


def test_with_mode_fail_a_bad_file_stops_the_run_with_its_name(run: Runner, lake: Lake, incoming: Path) -> None:
    parquet(incoming / "a.parquet", 1, id=["d"], n=["many"])
    source = {"path": str(incoming), "format": "parquet", "schema": "id STRING, n BIGINT"}
    wanted = lake.resource({"files": source}, table={"recordKey": ["id"]}, errors={"mode": "fail"})

    with pytest.raises(RowsRejected, match=r"a\.parquet: column n: the file has STRING, the schema BIGINT; give the "):
        run.once(wanted)

    assert lake.instants() == []


def test_bad_rows_are_dead_letters_also_where_spark_evaluates_the_sql(run: Runner, lake: Lake, incoming: Path) -> None:
    (incoming / "one.csv").write_text("a,1\nb,many\nc\nd,4\n")
    (incoming / "two.csv.gz").write_bytes(b"not compressed")
    source = {"path": str(incoming), "format": "csv", "schema": "id STRING, n BIGINT"}
    sql = {"sql": "SELECT regexp_replace(id, 'x', 'y') AS id, n FROM source"}

    run.once(lake.resource({"files": source}, table={"recordKey": ["id"]}, transform=sql))

    assert {row["id"]: row["n"] for row in lake.rows().to_pylist()} == {"a": 1, "d": 4}
    assert sorted((each["reason"], each["value"]) for each in lake.letters()) == [
        ("decode", b"b,many"),
        ("decode", b"c"),
        ("file", None),
    ]


def test_a_file_that_changes_while_it_is_planned_is_never_read_in_two_versions(
    run: Runner, lake: Lake, incoming: Path
) -> None:
    """What was planned is not what is there: the run stops, or reads what is there now, as a whole."""
    parquet(incoming / "a.parquet", 1, id=["a"], n=[1])
    source = {"path": str(incoming), "format": "parquet"}
    stopping = lake.resource({"files": source}, table={"recordKey": ["id"]})
    run.once(stopping)
    files_log = FilesLog(open_storage(str(lake.table)), stopping.pipeline)
    files_log.plan(FileBatch(1, str(incoming), (SourceFile("b.parquet", 1, 1, "another version"),)))
    parquet(incoming / "b.parquet", 2, id=["b"], n=[2])

    with pytest.raises(SourceFilesChanged, match=r"b\.parquet was changed after it was listed"):
        run.once(stopping)
    assert lake.rows()["id"].to_pylist() == ["a"]
    run.once(lake.resource({"files": {**source, "changed": "readAgain"}}, table={"recordKey": ["id"]}))

    assert sorted(lake.rows()["id"].to_pylist()) == ["a", "b"]


def test_a_file_that_is_deleted_before_it_is_read_is_a_dead_letter(run: Runner, lake: Lake, incoming: Path) -> None:
    parquet(incoming / "a.parquet", 1, id=["a"], n=[1])
    source = {"path": str(incoming), "format": "parquet"}
    wanted = lake.resource({"files": source}, table={"recordKey": ["id"]})
    gone = SourceFile("gone.parquet", 1, 1, "1")
    FilesLog(open_storage(str(lake.table)), wanted.pipeline).plan(FileBatch(0, str(incoming), (gone,)))

    run.once(wanted)

    assert lake.rows()["id"].to_pylist() == ["a"]
    assert [(each["reason"], each["detail"]) for each in lake.letters()] == [
        ("file", f"{incoming}/gone.parquet: was deleted before it was read")
    ]


@pytest.mark.parametrize("becomes", ["changed", "deleted"])
def test_a_file_that_goes_after_its_rows_were_written_leaves_none_of_them(
    run: Runner, lake: Lake, incoming: Path, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    """Dead letters are read after the rows. A file that is another one then is read again, in a new instant: rows of
    the old one would be visible by their files' names, and in no commit.
    """
    new = incoming / "a.json"
    new.write_text(f'{{"id": "old", "at": "{AT}", "quantity": 1}}\nno json\n')

    def change_first(letters: Any, plan: Any) -> Any:
        monkeypatch.undo()
        new.unlink()
        if becomes == "changed":
            new.write_text(f'{{"id": "new", "at": "{AT}", "quantity": 2}}\nno json either\n')
        return write_letters(letters, plan)

    monkeypatch.setattr(writing, "write_letters", change_first)

    run.once(resource(lake, incoming, "json", changed="readAgain"))

    if becomes == "changed":
        assert quantities(lake) == {"new": 2}
        assert [each["value"] for each in lake.letters()] == [b"no json either"]
    else:
        assert not list(lake.table.glob(".*.log.*"))
        assert [(each["reason"], each["detail"]) for each in lake.letters()] == [
            ("file", f"{incoming}/a.json: was deleted before it was read")
        ]


def source_condition(wanted: BucketIngest, progress: Progress) -> tuple[str, str, str]:
    """The condition that the operator makes of the job's report."""
    draft = Draft(Status(), 1, dt.datetime.now(dt.UTC))
    draft.take_report(progress_report(wanted, progress))
    found = draft.condition("SourceComplete")
    assert found is not None
    return found.status, found.reason, found.message


def test_a_changed_file_that_is_ignored_is_a_finding(run: Runner, lake: Lake, incoming: Path) -> None:
    parquet(incoming / "a.parquet", 1, id=["a"], n=[1])
    wanted = lake.resource(
        {"files": {"path": str(incoming), "format": "parquet", "changed": "ignore"}}, table={"recordKey": ["id"]}
    )
    assert source_condition(wanted, run.once(wanted)) == ("True", "AllRead", "")
    parquet(incoming / "a.parquet", 2, id=["a"], n=[2])

    value, reason, message = source_condition(wanted, run.once(wanted))

    assert (value, reason) == ("False", "FilesChanged")
    assert message == "Changed after they were read, and not read again: 1, a.parquet."
    assert lake.rows()["n"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ("parquet", "SELECT * FROM source"),
        ("avro", "SELECT * FROM source"),
        ("json", "SELECT regexp_replace(id, 'x', 'y') AS id FROM source"),
        ("csv", "SELECT * FROM source"),
    ],
)
def test_columns_that_the_schema_lacks_are_a_finding_whoever_evaluates_the_sql(
    run: Runner, lake: Lake, incoming: Path, *, caplog: pytest.LogCaptureFixture, kind: str, sql: str
) -> None:
    if kind == "parquet":
        parquet(incoming / "a.parquet", 1, id=["a"])
        parquet(incoming / "b.parquet", 2, id=["b"], more=[1], other=[2])
    elif kind == "avro":
        for path, record in (("a.avro", {"id": "a"}), ("b.avro", {"id": "b", "more": 1, "other": 2})):
            fields = [{"name": name, "type": "string" if name == "id" else "int"} for name in record]
            with (incoming / path).open("wb") as file:
                fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, [record], "deflate")
    else:
        (incoming / f"a.{kind}").write_text({"json": '{"id": "a"}\n', "csv": "id\na\n"}[kind])
        last = {"json": '{"id": "b", "more": 1, "other": 2}\n', "csv": "id,more,other\nb,1,2\n"}[kind]
        (incoming / f"b.{kind}").write_text(last)
    options = {"options": {"header": "true"}} if kind == "csv" else {}
    source = {"path": str(incoming), "format": kind, "schema": "id STRING", **options}
    wanted = lake.resource({"files": source}, table={"recordKey": ["id"]}, transform={"sql": sql})

    progress = run.once(wanted)

    assert sorted(lake.rows()["id"].to_pylist()) == ["a", "b"]
    assert progress.files is not None
    found = {(each.column, each.file) for each in progress.files.unknown}
    assert (progress.files.unknown_columns, found) == (2, {("more", f"b.{kind}"), ("other", f"b.{kind}")})
    assert source_condition(wanted, progress)[:2] == ("False", "UnknownColumns")
    assert caplog.messages.count("a column is not in the schema and is not read") == 2


def test_a_directory_that_shows_no_columns_is_refused(run: Runner, lake: Lake, incoming: Path) -> None:
    source = {"path": str(incoming), "format": "parquet"}
    with pytest.raises(
        NoSourceFiles, match=r"has no file that shows the columns: give them in spec\.source\.files\.schema"
    ):
        run.once(lake.resource({"files": source}, table={"recordKey": ["id"]}))
