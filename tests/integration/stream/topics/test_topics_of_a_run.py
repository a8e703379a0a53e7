"""Topics that change under a pipeline, at a real broker: made again, taken out, eaten by retention, in transactions."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import open_storage
from bucketingest.stream.errors import SourceDataLost
from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.commit_content import RANGES
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic, messages

pytestmark = pytest.mark.kafka

FORMAT = {"type": "json", "schema": "id BIGINT, seq BIGINT"}
TABLE = {"recordKey": ["id"], "orderingField": "seq", "index": {"buckets": 2}}
SPARK_READS = {"kafka.fetch.min.bytes": "1", "kafka.metrics.num.samples": "2"}
"""An option that only Java's client knows."""


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": number, "seq": number} for number in range(first, first + count)]


def ids(lake: Lake) -> list[int]:
    return sorted(lake.rows()["id"].to_pylist())


def recreate(topic: Topic) -> None:
    topic.broker.delete_topic(topic.name)
    topic.broker.create_topic(topic.name)


@pytest.mark.parametrize("fails_on_loss", ["true", "false"])
def test_a_topic_that_was_made_again_and_has_grown_is_not_read_on(
    run: Runner, lake: Lake, new_topic: NewTopic, fails_on_loss: str
) -> None:
    topic = new_topic()
    topic.send(messages(rows(0, 100), "id"))
    resource = lake.resource(topic.source(options={"failOnDataLoss": fails_on_loss}), table=TABLE, format=FORMAT)
    run.once(resource)
    recreate(topic)
    topic.send(messages(rows(1000, 200), "id"))
    with pytest.raises(RangeConflict, match=f"topic {topic.name} was deleted and made again: .* id .* id ") as ended:
        run.once(resource)
    assert ended.value.exit_code is ExitCode.SOURCE_CONFLICT
    assert ids(lake) == list(range(100))
    recreate(topic)  # shorter than the position, it is the same
    with pytest.raises(RangeConflict, match="made again"):
        run.once(resource)


def test_a_consumer_group_follows_the_commits(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    group = f"{topic.name}-lag"
    for first, ends in ((0, {0: 3, 1: 0}), (3, {0: 6, 1: 0})):
        topic.send(messages(rows(first, 3), "id"), partition=0)
        run.once(lake.resource(topic.source(commitGroup=group), table=TABLE, format=FORMAT))
        admin = AdminClient({"bootstrap.servers": topic.broker.bootstrap_servers})
        (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        assert {each.partition: each.offset for each in asked.result(10).topic_partitions} == ends


def test_each_commit_names_the_topic_s_id(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.send(messages(rows(0, 5), "id"))
    run.once(lake.resource(topic.source(), table=TABLE, format=FORMAT))
    storage = open_storage(str(lake.table))
    (commit,) = Timeline.load(storage).completed_commits
    extra = CommitMetadata.decode_extra(storage.get(path_of(commit)), path_of(commit))
    assert f'"topicIds": {{"{topic.name}": "' in extra[RANGES]


def test_what_retention_took_is_named(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.send(messages(rows(0, 100), "id"))
    resource = lake.resource(topic.source(), table=TABLE, format=FORMAT)
    run.once(resource)
    topic.send(messages(rows(100, 100), "id"))
    topic.broker.delete_records(topic.name, 0, before=150)
    with pytest.raises(SourceDataLost) as ended:
        run.once(resource)
    assert f"at most 50: topic {topic.name} partition 0: offsets 100 to 149 are gone" in str(ended.value)
    accepted = lake.resource(topic.source(options={"failOnDataLoss": "false"}), table=TABLE, format=FORMAT)
    run.once(accepted)
    assert ids(lake) == [*range(100), *range(150, 200)]


def test_a_topic_that_is_taken_out_and_put_back_goes_on_where_it_was(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    kept, left = new_topic(), new_topic()
    both = lake.resource(kept.source(topics=[kept.name, left.name]), table=TABLE, format=FORMAT)
    kept.send(messages(rows(0, 10), "id"))
    left.send(messages(rows(100, 10), "id"))
    run.once(both)
    left.send(messages(rows(200, 10), "id"))
    kept.send(messages(rows(10, 10), "id"))
    run.once(lake.resource(kept.source(), table=TABLE, format=FORMAT))
    assert ids(lake) == [*range(20), *range(100, 110)]
    left.broker.delete_records(left.name, 0, before=10)  # were it read again from its beginning, rows would be missed
    assert run.once(both).rows == 10
    assert ids(lake) == [*range(20), *range(100, 110), *range(200, 210)]


class Transaction:
    """One that is open until it is ended."""

    def __init__(self, topic: Topic, sent: list[dict[str, Any]], *, partition: int = 0) -> None:
        settings = {"bootstrap.servers": topic.broker.bootstrap_servers, "transactional.id": f"{topic.name}-{sent[0]}"}
        self.producer = Producer(settings)
        self.producer.init_transactions(30)
        self.producer.begin_transaction()
        for key, value in messages(sent, "id"):
            self.producer.produce(topic.name, value, key, partition)
        self.producer.flush(30)


@pytest.mark.parametrize("options", [{}, SPARK_READS], ids=["tasks", "spark"])
def test_only_committed_messages_are_rows(
    run: Runner, lake: Lake, new_topic: NewTopic, options: dict[str, str]
) -> None:
    """An open transaction holds back its own partition, and no other."""
    topic = new_topic(partitions=2)
    topic.send(messages(rows(0, 10), "id"), partition=0)
    Transaction(topic, rows(100, 50)).producer.abort_transaction(30)
    opened = Transaction(topic, rows(200, 50))
    topic.send(messages(rows(300, 10), "id"), partition=0)
    topic.send(messages(rows(400, 10), "id"), partition=1)
    resource = lake.resource(topic.source(options=options), table=TABLE, format=FORMAT)
    run.once(resource)
    assert ids(lake) == [*range(10), *range(400, 410)]
    opened.producer.commit_transaction(30)
    run.once(resource)
    assert ids(lake) == [*range(10), *range(200, 250), *range(300, 310), *range(400, 410)]


@pytest.mark.parametrize("options", [{}, SPARK_READS], ids=["tasks", "spark"])
def test_uncommitted_messages_are_rows_if_they_are_asked_for(
    run: Runner, lake: Lake, new_topic: NewTopic, options: dict[str, str]
) -> None:
    topic = new_topic()
    Transaction(topic, rows(100, 5)).producer.abort_transaction(30)
    asked = options | {"kafka.isolation.level": "read_uncommitted"}
    run.once(lake.resource(topic.source(options=asked), table=TABLE, format=FORMAT))
    assert ids(lake) == list(range(100, 105))


def test_a_topic_that_was_deleted_is_lost_data(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.send(messages(rows(0, 5), "id"))
    resource = lake.resource(topic.source(), table=TABLE, format=FORMAT)
    run.once(resource)
    topic.broker.delete_topic(topic.name)
    with pytest.raises(BucketIngestError, match=f"the topic {topic.name} was deleted") as ended:
        run.once(resource)
    assert ended.value.exit_code is ExitCode.SOURCE_DATA_LOST
