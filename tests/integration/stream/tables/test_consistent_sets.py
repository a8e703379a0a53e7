"""Tables of one database: the commits that an object beside the tables names have the same transactions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bucketingest.cli.connect.checking_spark import CheckingSpark
from bucketingest.cli.connect.checks import check_all
from bucketingest.cli.connect.results import Check
from bucketingest.storage import open_storage
from bucketingest.stream.tables.consistent.cuts import ConsistentSet
from bucketingest.stream.tables.consistent.set_file import SetFile, folder_of
from devservers.produce import produce
from support.jobs.many_running import Lake, runs
from support.jobs.many_topics import Topics
from support.oracle import hudi_rs

pytestmark = pytest.mark.kafka


class Bank:
    """Each transaction inserts a row into `debits` and one into `credits`; `banks` has one row, which never changes."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.count = 0
        topics.make("debits", "credits", "banks", "transaction", partitions=1)
        self._event("banks", 1, None)

    @property
    def spec(self) -> dict[str, Any]:
        return {
            "format": {"type": "json", "schema": "id BIGINT", "envelope": {"type": "debezium"}},
            "commit": {
                "at": "transaction",
                "transactionTopic": f"{self.topics.prefix}transaction",
                "interval": "2s",
                "trigger": "1s",
            },
        }

    def transaction(self) -> None:
        self.count += 1
        self._event("debits", self.count, 1)
        said = [{"data_collection": f"inv.{name}", "event_count": 1} for name in ("debits", "credits")]
        end = {"status": "END", "id": f"tx{self.count}", "event_count": 2, "data_collections": said}
        if self.count % 2:  # that broker was faster
            self._send("transaction", None, end)
        self._event("credits", self.count, 1)
        if not self.count % 2:
            self._send("transaction", None, end)

    def newest(self) -> ConsistentSet | None:
        path = f"{self.topics.folder}/{{topic}}"
        said = SetFile(open_storage(folder_of(path, "lake")), path).newest()
        return None if said is None else said.newest

    def judge(self, found: ConsistentSet) -> None:
        """Each table that it names, as of its instant, has the transactions up to the last one, and no other."""
        wanted = list(range(1, int(found.last.id.removeprefix("tx")) + 1))
        for topic, instant in found.tables.items():
            name = topic.removeprefix(self.topics.prefix)
            assert instant is not None
            rows = hudi_rs.as_of(self.topics.table(name), instant)
            assert sorted(rows.column("id").to_pylist()) == ([1] if name == "banks" else wanted), (name, found)

    def until_named(self, lake: Lake, count: int) -> None:
        """Go on with transactions until that many of them are in a set of all tables, and judge each set."""
        judged: list[ConsistentSet] = []

        def is_named() -> bool:
            if self.count < count:
                self.transaction()
            found = self.newest()
            if found is not None and (not judged or judged[-1] != found):
                judged.append(found)
                self.judge(found)
            return found is not None and len(found.tables) == 3 and found.last.id == f"tx{count}"

        lake.until(is_named)

    def _event(self, name: str, id_: int, order: int | None) -> None:
        event = {
            "before": None,
            "after": {"id": id_},
            "source": {"connector": "mysql", "db": "inv", "table": name, "snapshot": "false" if order else "last"},
            "transaction": order and {"id": f"tx{id_}", "total_order": order, "data_collection_order": order},
            "op": "c" if order else "r",
        }
        self._send(name, {"id": id_}, event)

    def _send(self, name: str, key: Any, value: Any) -> None:
        message = (None if key is None else json.dumps(key).encode(), json.dumps(value).encode())
        produce(self.topics.broker.bootstrap_servers, self.topics.prefix + name, [message])


def test_tables_as_of_a_set_have_the_same_transactions_while_they_come_and_after_a_restart(
    spark: SparkSession, topics: Topics
) -> None:
    bank = Bank(topics)
    said: list[Check] = []
    check_all(topics.resource(**bank.spec), CheckingSpark(), said.append)
    assert [each.said for each in said if each.name == "transactions"] == [
        f"{topics.prefix}transaction can be read; it is empty"
    ]
    with runs(spark, topics, **bank.spec) as lake:
        bank.until_named(lake, 10)
        assert set(lake.reports()) == {"debits", "credits", "banks"}, "the transaction topic gets no table"
    for _ in range(5):
        bank.transaction()
    with runs(spark, topics, **bank.spec) as lake:
        bank.until_named(lake, 20)
