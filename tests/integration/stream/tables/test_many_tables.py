"""One resource, many tables: each topic's rows are in its own table once, and one table's trouble stops no other."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from bucketingest.cli.connect.checking_spark import CheckingSpark
from bucketingest.cli.connect.checks import check_all
from bucketingest.cli.connect.results import Check
from bucketingest.cli.errors import BadOption
from bucketingest.cli.options import UnknownFields
from bucketingest.cli.services.sync import sync_file
from bucketingest.spec.model import BucketIngest
from bucketingest.stream import ingest_tables
from bucketingest.stream.errors import TablesParked
from bucketingest.stream.report.progress import Progress
from devservers.produce import produce
from support.catalogs.glue_server import running_glue
from support.jobs.command_process import CommandProcess
from support.jobs.many_topics import Topics
from support.jobs.stream_runs import Runner

pytestmark = pytest.mark.kafka
_WAIT_SECONDS = 240.0


def once(spark: SparkSession, resource: BucketIngest) -> Progress:
    running = ingest_tables(spark, resource, once=True)
    assert running.wait(_WAIT_SECONDS), running.reports()
    return running.progress()


def test_each_topic_has_a_table_and_a_second_run_continues_each(spark: SparkSession, topics: Topics) -> None:
    names = ["a", "b", "c", "d", "e"]
    topics.make(*names)
    for number, name in enumerate(names[:4]):
        topics.send(name, 0, 100 * (number + 1))

    progress = once(spark, topics.resource())

    assert progress.rows == 1000
    assert [topics.numbers(name) for name in names[:4]] == [list(range(100 * count)) for count in (1, 2, 3, 4)]
    topics.send("a", 100, 50)
    topics.send("e", 0, 5)
    again = once(spark, topics.resource())
    assert again.rows == 55
    assert topics.numbers("a") == list(range(150))
    assert topics.numbers("e") == list(range(5))


def test_each_table_is_found_by_name_and_one_that_cannot_be_stops_none(
    spark: SparkSession,
    topics: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    topics.make("a.b", "a-b", "c")  # two of them have one name
    for number, name in enumerate(("a.b", "a-b", "c")):
        topics.send(name, 0, 10 * (number + 1))
    iceberg = {"type": "sql", "uri": f"sqlite:///{tmp_path}/iceberg.db", "warehouse": str(tmp_path / "warehouse")}
    lake = SqlCatalog("default", uri=iceberg["uri"], warehouse=iceberg["warehouse"])
    lake.create_namespace("lake")
    with running_glue() as (endpoint, glue), closing(lake):
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", endpoint)
        of_glue = {"region": "eu-west-1", "database": "lake", "table": "t_{topic}"}
        resource = topics.resource(
            catalogs=[{"glue": of_glue}, {"iceberg": {**iceberg, "database": "lake", "table": "{topic}"}}]
        )
        progress = once(spark, resource)
        names = {each["Name"] for each in glue.get_tables(DatabaseName="lake")["TableList"]}

        assert (progress.rows, progress.commits) == (60, 3)
        prefix = topics.prefix.replace(".", "_")
        assert names == {f"t_{prefix}{name}{view}" for name in ("a_b", "c") for view in ("", "_rt", "_ro")}
        assert {each[1] for each in lake.list_tables("lake")} == {f"{prefix}{name}" for name in ("a_b", "c")}
        failed, _ = progress.catalogs
        assert failed.problem is not None
        assert "give this table another name" in failed.problem
        file = tmp_path / "lake.yaml"
        file.write_text(json.dumps(resource.to_document()))
        by_hand = partial(sync_file, file, drop=False, check=False, dry_run=False, as_json=False)
        with pytest.raises(BadOption, match="name one by --topic"):
            by_hand(None, UnknownFields.REFUSE)
        by_hand(f"{topics.prefix}c", UnknownFields.REFUSE)
        assert f"lake.t_{prefix}c: nothing to do" in capsys.readouterr().out


def test_trouble_of_one_table_parks_it_and_the_others_go_on(spark: SparkSession, topics: Topics) -> None:
    topics.make("good", "refused", "odd")
    for name in ("good", "refused", "odd"):
        topics.send(name, 0, 20)
    produce(topics.broker.bootstrap_servers, topics.prefix + "odd", [(b"x", b"no JSON")])
    overrides = [{"topics": ".*refused", "table": {"recordKey": ["no_such_column"]}}]

    with pytest.raises(TablesParked, match=r"(?s)1 of 3 tables are parked: .*refused: .*no_such_column"):
        once(spark, topics.resource(tables={"overrides": overrides}))

    assert topics.numbers("good") == list(range(20))
    assert topics.numbers("odd") == list(range(20))
    assert not (topics.table("refused") / ".hoodie").exists()
    letters = list((topics.folder / f"{topics.prefix}odd~dead_letters").rglob("*.parquet"))
    assert len(letters) == 1


@pytest.mark.usefixtures("spark")
def test_validate_asks_for_a_topic_of_each_override(topics: Topics) -> None:
    topics.make("a", "b", "odd1", "odd2")
    overrides = [{"topics": ".*odd.*", "transform": {"sql": "SELECT id, no_such_column FROM source"}}]
    resource = topics.resource(tables={"overrides": overrides})
    shown: list[Check] = []

    failed = check_all(resource, CheckingSpark(), shown.append).failed

    assert [each.name for each in failed] == [f"sql of {topics.prefix}odd1"]
    assert "no_such_column" in failed[0].said
    said = {each.name: each.said for each in shown}
    assert said["source"].startswith("4 topics match")
    assert said["storage"] == f"{topics.folder}/{{topic}} can be read"
    assert said[f"table of {topics.prefix}a"] == "the columns can be those of a new table"
    assert not topics.table("a").exists()


def test_what_fails_in_the_tasks_of_one_table_is_of_no_matter_to_the_others(
    spark: SparkSession, topics: Topics
) -> None:
    topics.make("good", "poison")
    for name in ("good", "poison"):
        topics.send(name, 0, 20)
    produce(topics.broker.bootstrap_servers, topics.prefix + "poison", [(b"x", b"no JSON")])

    with pytest.raises(TablesParked, match=r"(?s)poison: 1 rows cannot be written"):
        once(spark, topics.resource(errors={"mode": "fail"}))

    assert topics.numbers("good") == list(range(20))


def test_a_table_moves_into_the_resource_and_out_of_it_again(spark: SparkSession, run: Runner, topics: Topics) -> None:
    topics.make("moves")
    topics.send("moves", 0, 30)
    topic = topics.prefix + "moves"
    alone: dict[str, Any] = {
        "tables": None,
        "source": {"kafka": {"bootstrapServers": topics.broker.bootstrap_servers, "topics": [topic]}},
    }

    def own(name: str, **table: Any) -> BucketIngest:
        path = {"path": str(topics.table("moves")), "recordKey": ["id"], "index": {"buckets": 4}, **table}
        return topics.resource(name=name, table=path, **alone)

    run.once(own("orders"))
    topics.send("moves", 30, 30)
    progress = once(spark, topics.resource(tables={"overrides": [{"topics": topic, "table": {"pipeline": "orders"}}]}))
    assert progress.rows == 30
    assert topics.numbers("moves") == list(range(60))

    topics.send("moves", 60, 30)
    assert run.once(own("elsewhere", pipeline="orders")).rows == 30
    assert topics.numbers("moves") == list(range(90))


def test_kills_lose_and_double_no_row(topics: Topics, tmp_path: Path) -> None:
    """Every table appends: a row that came twice would be there twice."""
    names = [f"k{number}" for number in range(8)]
    topics.make(*names[:-1])
    columns = {"topic": "t", "partition": "p", "offset": "o"}
    resource = topics.resource(
        table={"path": f"{topics.folder}/{{topic}}", "recordKey": ["id"], "index": {"buckets": 2}},
        spark={"driver": {"memory": "1Gi"}, "executor": {"memory": "1Gi"}},
    ).to_document(defaults=False)
    resource["spec"]["source"]["kafka"]["columns"] = columns
    resource["spec"]["table"].pop("recordKey", None)
    file = tmp_path / "lake.yaml"
    file.write_text(json.dumps(resource))
    sent = dict.fromkeys(names, 0)

    def send(name: str, count: int) -> None:
        topics.send(name, sent[name], count)
        sent[name] += count

    def has(count: int) -> Callable[[], bool]:
        def reached() -> bool:
            tables = [
                path
                for path in topics.folder.glob(f"{topics.prefix}k?")
                if list(path.glob(".hoodie/timeline/*.deltacommit"))
            ]
            return len(tables) >= count

        return reached

    for kill in range(3):
        for name in names[:-1]:
            send(name, 200)
        with CommandProcess("run", file, log=tmp_path / f"{kill}.log") as process:
            process.wait_until(has(2 + 2 * kill))
            process.signal(signal.SIGKILL)
            process.wait()
    topics.make(names[-1])
    send(names[-1], 10)
    with CommandProcess("run", file, "--once", log=tmp_path / "last.log") as process:
        assert process.wait() == 0, process.output
    for name in names:
        assert topics.numbers(name) == list(range(sent[name])), name
