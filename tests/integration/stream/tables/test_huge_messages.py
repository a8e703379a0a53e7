"""A message of some kilobytes that are hundreds of megabytes when they are unpacked: a broker takes it, whatever its
limits. Its table alone has trouble.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from bucketingest.exit_codes import ExitCode
from support.jobs.command_process import CommandProcess
from support.jobs.many_topics import Topics

pytestmark = pytest.mark.kafka
_HUGE = 200 * 1024**2


def send_huge(topics: Topics, name: str, value: bytes) -> None:
    producer = Producer(
        {
            "bootstrap.servers": topics.broker.bootstrap_servers,
            "compression.type": "zstd",
            "message.max.bytes": 1_000_000_000,
        }
    )
    producer.produce(topics.prefix + name, value, partition=0)
    assert producer.flush(120) == 0


def has(topics: Topics, count: int) -> Callable[[], bool]:
    """Whether the table `good` has so many commits."""
    timeline = topics.table("good") / ".hoodie" / "timeline"
    return lambda: len(list(timeline.glob("*_*.deltacommit"))) >= count


@pytest.fixture
def resource(topics: Topics, tmp_path: Path) -> Callable[..., Path]:
    def written(**spec: Any) -> Path:
        memory = {"driver": {"memory": "1Gi"}, "executor": {"memory": "1Gi"}}
        file = tmp_path / "lake.yaml"
        file.write_text(json.dumps(topics.resource(spark=memory, **spec).to_document(defaults=False)))
        return file

    return written


def test_a_huge_message_is_trouble_of_its_table_alone(
    topics: Topics, tmp_path: Path, resource: Callable[..., Path]
) -> None:
    topics.make("good", "row", "odd", partitions=1)
    send_huge(topics, "row", b'{"id": "%s", "n": 1}' % (b"x" * _HUGE))
    send_huge(topics, "odd", b'{"id": "%s' % (b"x" * _HUGE))

    with CommandProcess("run", resource(), log=tmp_path / "job.log") as process:
        for number in range(3):
            topics.send("good", number * 10, 10)
            process.wait_until(has(topics, number + 1))
        process.wait_until(lambda: process.output.count("more than 100 MB when it is unpacked") >= 2)
        topics.send("good", 30, 10)
        process.wait_until(has(topics, 4))
    assert topics.numbers("good") == list(range(40))


def test_one_that_ends_the_job_does_so_ever_more_rarely(
    topics: Topics, tmp_path: Path, resource: Callable[..., Path]
) -> None:
    """With SQL that only Spark evaluates, messages are read in the JVM. Each start writes the others first."""
    topics.make("good", "bomb", partitions=1)
    sql = "SELECT id, aggregate(sequence(1L, n), 0L, (a, x) -> a + x) AS n FROM source"
    file = resource(tables={"overrides": [{"topics": ".*bomb", "transform": {"sql": sql}}]})
    send_huge(topics, "bomb", b'{"id": "%s", "n": 1}' % (b"x" * _HUGE))

    ends = []
    for start in range(5):
        topics.send("good", start * 10, 10)
        with CommandProcess("run", file, log=tmp_path / f"{start}.log") as process:
            while process.ended() is None:
                is_parked = "and no start finished it" in process.output
                if is_parked and topics.numbers("good") == list(range(start * 10 + 10)):
                    break
                time.sleep(0.1)
            ends.append(process.ended())
    assert ends[:2] == [ExitCode.OUT_OF_MEMORY] * 2
    assert ends[-1] is None
    assert topics.numbers("good") == list(range(50))
