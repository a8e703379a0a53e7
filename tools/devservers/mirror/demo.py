"""A mirror of a real database on this machine: PostgreSQL, Debezium Server, a broker, a pipeline, a query, an audit.

Run by `make demo-debezium`. Everything is in a temporary folder; only the table and its BucketIngest are left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
from confluent_kafka import Consumer, TopicPartition

from devservers.kafka import KafkaBroker
from devservers.locations import MissingDependencyError
from devservers.mirror.databases import Postgres
from devservers.mirror.debezium import DebeziumServer
from devservers.process import ServerError

TOPIC: Final = "shop.inv.orders"
ROWS: Final = 1000
CHANGES: Final = 51 + 50 + 2
"""Events of the statements below; of a delete there are two, itself and its tombstone."""
_PATIENCE_SECONDS: Final = 120.0
DDL: Final = """
CREATE SCHEMA inv;
CREATE TABLE inv.orders (id BIGINT PRIMARY KEY, customer TEXT, amount NUMERIC(10,2), changed_at TIMESTAMPTZ);
INSERT INTO inv.orders SELECT n, 'customer ' || n % 10, n * 0.25, now() FROM generate_series(1, 1000) n"""
STATEMENTS: Final = (
    "UPDATE inv.orders SET amount = amount + 1 WHERE id <= 51",
    "INSERT INTO inv.orders SELECT n, 'new', 1, now() FROM generate_series(1001, 1050) n",
    "DELETE FROM inv.orders WHERE id = 500",
)


def main() -> int:
    """Show it; returns an exit code."""
    folder = Path(tempfile.mkdtemp(prefix="bucketingest-mirror-"))
    try:
        with KafkaBroker() as broker, Postgres() as database:
            broker.create_topic(TOPIC)
            with psycopg.connect(database.url, autocommit=True) as connection:
                connection.execute(DDL)
                with DebeziumServer(
                    database,
                    broker.bootstrap_servers,
                    prefix="shop",
                    settings={
                        "debezium.source.table.include.list": "inv.orders",
                        "debezium.format.key.schemas.enable": "true",
                        "debezium.format.value.schemas.enable": "true",
                    },
                ):
                    return _show(folder, broker.bootstrap_servers, database.url, connection)
    except (MissingDependencyError, ServerError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _show(folder: Path, bootstrap_servers: str, url: str, connection: psycopg.Connection[Any]) -> int:
    file = folder / "orders.yaml"
    file.write_text(json.dumps(_resource(folder, bootstrap_servers), indent=2))
    say(f"PostgreSQL has {ROWS} orders. Debezium writes them into the topic {TOPIC} of {bootstrap_servers}.")
    _wait_until(lambda: _events(bootstrap_servers) >= ROWS)
    ends = [_run("run", str(file), "--once")]
    for statement in STATEMENTS:
        say(statement)
        connection.execute(statement)
    _wait_until(lambda: _events(bootstrap_servers) >= ROWS + CHANGES)
    ends.append(_run("run", str(file), "--once"))
    question = "SELECT customer, count(*), sum(amount) FROM t GROUP BY customer ORDER BY customer"
    ends.append(_run("query", str(file), question))
    ends.append(_run("audit", str(file), "--against", url, "--settle", "0s"))
    say(f"The table, and its BucketIngest, are in {folder}")
    return max(ends)


def _resource(folder: Path, bootstrap_servers: str) -> dict[str, Any]:
    spec = {
        "source": {"kafka": {"bootstrapServers": bootstrap_servers, "topics": [TOPIC], "startingOffsets": "earliest"}},
        "format": {
            "type": "json",
            "schema": "id BIGINT, customer STRING, amount DECIMAL(10,2), changed_at TIMESTAMP",
            "envelope": {"type": "debezium"},
        },
        "table": {"path": str(folder / "table"), "recordKey": ["id"], "index": {"buckets": 4}},
    }
    head = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "orders"}}
    return {**head, "spec": spec}


def _events(bootstrap_servers: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "demo"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)[1])
    finally:
        consumer.close()


def _wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise ServerError(f"after {_PATIENCE_SECONDS:g} s Debezium has not written all changes into {TOPIC}")
        time.sleep(0.2)


def _run(*arguments: str) -> int:
    say(f"\n$ bucketingest {' '.join(arguments)}")
    command = Path(sys.executable).with_name("bucketingest")
    return subprocess.run([command, *arguments], env=dict(os.environ), check=False).returncode


def say(text: str) -> None:
    """Print at once, in front of what a command prints."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
