"""Ranges of a real topic: each message of a range once, and whatever may be a loss is in doubt."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from bucketingest.decode.kafka.client_options import client_of
from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.kafka.reader import BATCH_BYTES, BATCH_ROWS, SILENCE_SECONDS, expect, read
from devservers.kafka import LOGIN, KafkaBroker
from devservers.produce import produce

pytestmark = pytest.mark.kafka

UNCOMMITTED = {"kafka.isolation.level": "read_uncommitted"}


@pytest.fixture
def topic(kafka_broker: KafkaBroker, request: pytest.FixtureRequest) -> str:
    name = re.sub("[^A-Za-z0-9]+", "-", request.node.name)[-80:]
    kafka_broker.create_topic(name, partitions=2)
    return name


@pytest.fixture
def send(kafka_broker: KafkaBroker, topic: str) -> Callable[..., None]:
    def send(*values: bytes | None, partition: int = 0) -> None:
        produce(kafka_broker.bootstrap_servers, topic, [(b"k", value) for value in values], partition=partition)

    return send


@pytest.fixture
def transaction(kafka_broker: KafkaBroker, topic: str) -> Callable[..., None]:
    """Sends messages in one transaction, which takes an offset more."""
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)

    def send(*values: bytes, commit: bool) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    return send


def batches(
    broker: KafkaBroker, wanted: TopicRange, silence: float = SILENCE_SECONDS, **options: Any
) -> list[pa.RecordBatch]:
    return list(read(wanted, client_of(broker.bootstrap_servers, options), ("value",), silence))


def values(broker: KafkaBroker, wanted: TopicRange, **options: Any) -> list[bytes | None]:
    return [value for batch in batches(broker, wanted, **options) for value in batch.column("value").to_pylist()]


def test_ranges_in_any_order_are_whole_and_in_batches_as_sparks(
    kafka_broker: KafkaBroker, topic: str, send: Callable[..., None]
) -> None:
    sent: list[list[bytes | None]] = [
        [None if number % 7 == 0 else b"%d-%d" % (partition, number) for number in range(3500)] for partition in (0, 1)
    ]
    for partition in (0, 1):
        send(*sent[partition], partition=partition)
    edges = [0, 1, 2, 1000, 1001, 3200, 3499, 3500]
    for partition, (start, until) in itertools.product((0, 1, 0), itertools.combinations(edges, 2)):
        found = batches(kafka_broker, TopicRange(topic, partition, start, until))
        assert [value for batch in found for value in batch.column("value").to_pylist()] == (
            sent[partition][start:until]
        )
        full, rest = divmod(until - start, BATCH_ROWS)
        assert [batch.num_rows for batch in found] == [BATCH_ROWS] * full + [rest] * (rest > 0)


def test_batches_of_long_messages_are_small(kafka_broker: KafkaBroker, topic: str, send: Callable[..., None]) -> None:
    sent = [bytes([number]) * 700_000 for number in range(30)]
    send(*([b"short"] * 100), *sent)
    found = batches(kafka_broker, TopicRange(topic, 0, 0, 130))
    assert max(batch.nbytes for batch in found) < 2 * BATCH_BYTES
    assert [value for batch in found for value in batch.column("value").to_pylist()][100:] == sent


def test_a_task_that_ends_early_leaves_nothing_behind(
    kafka_broker: KafkaBroker, topic: str, send: Callable[..., None]
) -> None:
    send(*[b"%d" % number for number in range(3000)])
    wanted = TopicRange(topic, 0, 0, 3000)
    some: Any = read(wanted, client_of(kafka_broker.bootstrap_servers, {}))
    next(some)
    some.close()
    assert values(kafka_broker, wanted) == [b"%d" % number for number in range(3000)]


def test_a_partition_that_is_new_is_found(kafka_broker: KafkaBroker, topic: str, send: Callable[..., None]) -> None:
    send(b"a")
    assert values(kafka_broker, TopicRange(topic, 0, 0, 1)) == [b"a"]
    kafka_broker.add_partitions(topic, total=4)
    send(b"b", b"c", partition=3)
    assert values(kafka_broker, TopicRange(topic, 3, 0, 2)) == [b"b", b"c"]


def test_transactions_are_read_as_the_isolation_level_says(
    kafka_broker: KafkaBroker, topic: str, transaction: Callable[..., None]
) -> None:
    transaction(b"a", b"b", commit=True)  # offsets 0, 1 and 2
    transaction(b"c", b"d", commit=False)  # 3, 4 and 5
    transaction(b"e", commit=True)  # 6 and 7
    transaction(b"f", commit=False)  # 8 and 9
    everything = [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert values(kafka_broker, TopicRange(topic, 0, 0, 10), **UNCOMMITTED) == everything
    assert values(kafka_broker, TopicRange(topic, 0, 0, 10)) == [b"a", b"b", b"e"]
    assert values(kafka_broker, TopicRange(topic, 0, 1, 6)) == [b"b"]
    assert values(kafka_broker, TopicRange(topic, 0, 3, 6)) == []
    assert values(kafka_broker, TopicRange(topic, 0, 2, 3)) == []
    assert values(kafka_broker, TopicRange(topic, 0, 8, 10)) == []


def test_gaps_of_a_compacted_topic_are_no_loss(kafka_broker: KafkaBroker) -> None:
    topic = "compacted"
    often = {"min.cleanable.dirty.ratio": "0.01", "segment.ms": "100", "max.compaction.lag.ms": "100"}
    kafka_broker.create_topic(topic, config={"cleanup.policy": "compact", **often})
    servers = kafka_broker.bootstrap_servers
    produce(servers, topic, [(b"%d" % (number % 7), b"%d" % number) for number in range(2000)])
    newest = [b"%d" % number for number in range(1993, 2000)]
    deadline = time.monotonic() + 60
    while values(kafka_broker, TopicRange(topic, 0, 0, 2000)) != newest:
        assert time.monotonic() < deadline, "the broker does not compact the topic"
        produce(servers, topic, [(b"another", b"2000")])  # begins a segment: the one that is written is not compacted
    for start, until in itertools.combinations([0, 1, 500, 1993, 1996, 2000], 2):
        wanted = [value for value in newest if start <= int(value) < until]
        assert values(kafka_broker, TopicRange(topic, 0, start, until)) == wanted


@pytest.mark.parametrize("before", [1, 40])
def test_deleted_messages_are_in_doubt_and_those_behind_them_are_not(
    kafka_broker: KafkaBroker, topic: str, send: Callable[..., None], before: int
) -> None:
    send(*[b"%d" % number for number in range(40)])
    kafka_broker.delete_records(topic, 0, before=before)
    with pytest.raises(TopicInDoubt, match=f"{topic}-0 from 0 to 40: _AUTO_OFFSET_RESET: .*[Oo]ffset out of range"):
        values(kafka_broker, TopicRange(topic, 0, 0, 40))
    assert values(kafka_broker, TopicRange(topic, 0, before, 40)) == [b"%d" % number for number in range(before, 40)]


def test_a_gap_that_was_deleted_meanwhile_is_in_doubt(
    kafka_broker: KafkaBroker, topic: str, transaction: Callable[..., None]
) -> None:
    transaction(*[b"a"] * BATCH_ROWS, commit=True)
    transaction(b"b", commit=True)
    wanted = TopicRange(topic, 0, 0, BATCH_ROWS + 3)
    assert values(kafka_broker, wanted) == [b"a"] * BATCH_ROWS + [b"b"]
    some = read(wanted, client_of(kafka_broker.bootstrap_servers, {}))
    assert next(some).num_rows == BATCH_ROWS
    kafka_broker.delete_records(topic, 0, before=BATCH_ROWS + 2)
    with pytest.raises(TopicInDoubt, match=f"no message at {BATCH_ROWS}, and the topic begins at {BATCH_ROWS + 2} now"):
        list(some)


def test_a_topic_that_was_made_again_is_in_doubt(
    kafka_broker: KafkaBroker, topic: str, send: Callable[..., None]
) -> None:
    send(*[b"old"] * 20)
    wanted = TopicRange(topic, 0, 5, 20)
    assert values(kafka_broker, wanted) == [b"old"] * 15
    kafka_broker.delete_topic(topic)
    kafka_broker.create_topic(topic, partitions=2)
    with pytest.raises(TopicInDoubt, match=f"{topic}-0 from 5 to 20: "):
        values(kafka_broker, wanted)
    send(*[b"new"] * 10)
    with pytest.raises(TopicInDoubt, match="the topic ends at 10; it may have been made again"):
        values(kafka_broker, wanted)
    assert values(kafka_broker, TopicRange(topic, 0, 0, 10)) == [b"new"] * 10


def test_a_topic_that_is_not_there_and_a_broker_that_is_not(kafka_broker: KafkaBroker) -> None:
    with pytest.raises(TopicInDoubt, match=r"no-such-0 from 0 to 5: (UNKNOWN_TOPIC|_UNKNOWN|no message from 0 on for)"):
        batches(kafka_broker, TopicRange("no-such", 0, 0, 5), 0.5)
    nobody = client_of("127.0.0.1:1", {})
    with pytest.raises(TopicInDoubt, match=r"no message from 0 on for 0\.5 s: .*127\.0\.0\.1:1"):
        list(read(TopicRange("t", 0, 0, 5), nobody, ("value",), 0.5))


def test_an_option_that_the_client_refuses_is_in_doubt(kafka_broker: KafkaBroker) -> None:
    with pytest.raises(TopicInDoubt, match=r"_INVALID_ARG: .*socket\.timeout\.ms"):
        values(kafka_broker, TopicRange("t", 0, 0, 5), **{"kafka.request.timeout.ms": "-5"})


def login_options(mechanism: str, password: str) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'username="{LOGIN[0]}" password="{password}"'
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.{module} required {login};",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_login_is_that_of_javas_client(
    kafka_broker: KafkaBroker, topic: str, send: Callable[..., None], mechanism: str
) -> None:
    send(b"a", b"b")
    wanted = TopicRange(topic, 0, 0, 2)
    client = client_of(kafka_broker.sasl_servers, login_options(mechanism, LOGIN[1]))
    assert [batch.column("value").to_pylist() for batch in read(wanted, client)] == [[b"a", b"b"]]
    with pytest.raises(TopicInDoubt, match="_AUTHENTICATION: ") as raised:
        list(read(wanted, client_of(kafka_broker.sasl_servers, login_options(mechanism, "hunter22"))))
    assert "hunter22" not in str(raised.value)


def test_a_login_needs_no_right_to_a_group(kafka_broker: KafkaBroker, topic: str, send: Callable[..., None]) -> None:
    """Spark's own reader needs none: it is no member of one."""
    send(b"a", b"b")
    kafka_broker.deny_groups(LOGIN[0])
    client = client_of(kafka_broker.sasl_servers, login_options("PLAIN", LOGIN[1]))
    for _ in range(3):
        assert [each.column("value").to_pylist() for each in read(TopicRange(topic, 0, 0, 2), client)] == [[b"a", b"b"]]


def test_certificates_are_those_of_javas_client(
    kafka_broker: KafkaBroker, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    send(b"a")
    assert kafka_broker.authority is not None
    authority, made = kafka_broker.authority.file, kafka_broker.authority.issue("reader")
    port = kafka_broker.tls_bootstrap_servers.rpartition(":")[2]
    trust = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": authority.read_text(),
    }
    files = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(authority),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": str(tmp_path / "own.pem"),
    }
    (tmp_path / "own.pem").write_text(made.key + made.certificate)
    own = {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": made.certificate,
        "kafka.ssl.keystore.key": made.key,
    }
    any_name = {"kafka.ssl.endpoint.identification.algorithm": ""}

    def found(host: str, options: dict[str, str], silence: float = SILENCE_SECONDS) -> list[list[bytes]]:
        client = client_of(f"{host}:{port}", options)
        some = read(TopicRange(topic, 0, 0, 1), client, ("value",), silence)
        return [batch.column("value").to_pylist() for batch in some]

    assert found("127.0.0.1", trust | own) == [[b"a"]]
    assert found("127.0.0.1", files) == [[b"a"]]
    assert found("localhost", trust | own | any_name) == [[b"a"]]
    with pytest.raises(TopicInDoubt, match=r"_SSL: .*certificate verify failed"):
        found("localhost", trust | own)  # the certificate has the address only
    with pytest.raises(TopicInDoubt, match=r"_SSL: .*certificate verify failed"):
        found("127.0.0.1", {"kafka.security.protocol": "SSL"})
    with pytest.raises(TopicInDoubt, match=f"{topic}-0 from 0 to 1: "):
        found("127.0.0.1", trust, silence=2.0)


def test_topics_that_are_expected_are_asked_for_together(kafka_broker: KafkaBroker, topic: str) -> None:
    """Each that is not costs a request and a second."""
    names = [f"{topic}-{number}" for number in range(20)]
    for name in names:
        kafka_broker.create_topic(name)
        produce(kafka_broker.bootstrap_servers, name, [(b"k", name.encode())])
    asked: list[int] = []

    def said(text: str) -> None:
        asked.append(sum(each["req"].get("Metadata", 0) for each in json.loads(text)["brokers"].values()))

    client = client_of(kafka_broker.bootstrap_servers, {})
    watched = replace(client, properties={**client.properties, "statistics.interval.ms": 50, "stats_cb": said})  # type: ignore[dict-item]
    wanted = [TopicRange(name, 0, 0, 1) for name in names]

    expect(wanted, watched)
    found = [batch.column("value")[0].as_py() for each in wanted for batch in read(each, watched)]

    assert found == [name.encode() for name in names]
    while not asked:
        list(read(wanted[0], watched))
    assert max(asked) < len(names) / 2


def test_an_expected_topic_that_is_not_there_is_no_matter_to_the_others(
    kafka_broker: KafkaBroker, topic: str, send: Callable[..., None]
) -> None:
    send(b"x")
    send(b"y", partition=1)
    client = client_of(kafka_broker.bootstrap_servers, {})
    there, missing = [TopicRange(topic, 0, 0, 1), TopicRange(topic, 1, 0, 1)], TopicRange(f"{topic}-not", 0, 0, 1)

    expect([missing, *there], client)

    assert [values(kafka_broker, each) for each in there] == [[b"x"], [b"y"]]
    with pytest.raises(TopicInDoubt, match="-not-0 from 0 to 1"):
        batches(kafka_broker, missing, silence=0.5)
    assert values(kafka_broker, there[0]) == [b"x"]
