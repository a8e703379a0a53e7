"""One resource with many tables on a cluster: each topic's rows are in its own table once, and one refused table is
said, stops no other, and goes on when it is mended.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from bucketingest.hudi.table.table import TableDefinition, create_table
from bucketingest.storage import open_storage
from devservers.kafka import KafkaBroker
from devservers.produce import produce
from support.cluster.faults import kill_first_process
from support.cluster.kube import Manifest
from support.cluster.pipeline import Pipeline
from support.jobs.stream_runs import messages
from support.oracle import hudi_rs

NewPipeline = Callable[..., Pipeline]
NAMES = ("a", "b", "c", "d", "refused")


def test_many_tables_survive_a_killed_driver_and_a_refused_one_stops_no_other(
    on_volume: NewPipeline, kafka_broker: KafkaBroker
) -> None:
    lake = on_volume("lake")
    prefix = f"{lake.topic}."
    for name in NAMES:
        kafka_broker.create_topic(prefix + name, partitions=2)
    other_buckets(lake.table / f"{prefix}refused")

    def send(first: int, count: int) -> None:
        rows = [{"id": str(number), "n": number} for number in range(first, first + count)]
        for name in NAMES:
            produce(kafka_broker.bootstrap_servers, prefix + name, messages(rows, "id"))

    def have(names: tuple[str, ...], count: int) -> bool:
        return all(numbers(lake.table / (prefix + name)) == list(range(count)) for name in names)

    send(0, 50)
    lake.kube.create(many_tables(lake))
    lake.wait("apply -> rows in four tables", lambda: have(NAMES[:4], 50))
    said = lake.wait_for_condition("TablesHealthy", "False", "TablesParked")
    assert f"1 of 5 tables are parked: {prefix}refused: " in said["message"]
    assert "8" in said["message"], "it has other buckets"
    lake.wait_for_condition("Ready", "True")
    tables = (lake.get() or {})["status"]["tables"]
    assert (tables["known"], tables["open"], tables["parked"]) == (5, 4, 1)
    assert [(each["topic"], each["state"]) for each in tables["worst"]] == [(f"{prefix}refused", "parked")]

    kill_first_process(lake.drivers()[-1])
    send(50, 50)
    lake.wait("driver SIGKILL -> attempt 2", lambda: lake.attempt() == 2)
    lake.wait("driver SIGKILL -> rows in four tables", lambda: have(NAMES[:4], 100))

    shutil.rmtree(lake.table / f"{prefix}refused")
    lake.wait("mended -> rows in all tables", lambda: have(NAMES, 100), within=400.0)
    lake.wait_for_condition("TablesHealthy", "True")
    assert lake.attempt() == 2, lake.state()


def other_buckets(path: Path) -> None:
    """A table that the resource's spec does not fit, which pods may write."""
    create_table(open_storage(str(path)), TableDefinition("refused", ("id",), (), None, buckets=8))
    for each in (path.parent, path, *path.rglob("*")):
        each.chmod(0o777)


def numbers(table: Path) -> list[int]:
    """What is in the table, as hudi-rs reads it."""
    if not any((table / ".hoodie" / "timeline").glob("*_*.deltacommit")):
        return []
    return sorted(hudi_rs.snapshot(table)["n"].to_pylist())


def many_tables(lake: Pipeline) -> Manifest:
    """The resource, small: one pod."""
    found = lake.manifest()
    spec = found["spec"]
    kafka = {"bootstrapServers": lake.broker.bootstrap_servers, "topicPattern": f"{lake.topic}[.].*"}
    lock = spec["table"]["lock"]
    spec |= {
        "source": {"kafka": kafka},
        "format": {"type": "json", "schema": "id STRING, n BIGINT"},
        "table": {"path": f"{lake.table_url}/{{topic}}", "recordKey": ["id"], "memoryPerTask": "64Mi", "lock": lock},
        "tables": {},
        "services": {"mode": "off"},
    }
    spec["spark"]["executor"] = {"instances": 0}
    return found
