"""The look at Kafka, at a real broker: topics that are there, that are not, and a broker that is not."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from bucketingest.spec.fields.source import KafkaSource
from bucketingest.stream.errors import SourceOptionsRefused, SourceUnreachable
from bucketingest.stream.topics.brokers import look_at_topics
from support.jobs.stream_runs import NewTopic

pytestmark = pytest.mark.kafka


def kafka(source: dict[str, Any]) -> KafkaSource:
    return KafkaSource.model_validate(source["kafka"])


def test_topics_are_found_and_a_missing_one_is_not_made(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    assert look_at_topics(spark, kafka(topic.source()), 30)[1] == "1 topics with 3 partitions"
    pattern = {"topics": None, "topicPattern": f"{topic.name}.*"}
    assert look_at_topics(spark, kafka(topic.source(**pattern)), 30)[1].startswith("1 topics match")
    for _ in range(2):  # a broker that makes topics would have it the second time
        with pytest.raises(SourceUnreachable, match=f"lacks the topic {topic.name}-none of"):
            look_at_topics(spark, kafka(topic.source(topics=[topic.name, f"{topic.name}-none"])), 30)


def test_a_broker_that_is_not_there_and_options_that_cannot_be(spark: SparkSession, new_topic: NewTopic) -> None:
    nobody = {"kafka": {"bootstrapServers": "127.0.0.1:1", "topics": ["none"]}}
    with pytest.raises(SourceUnreachable, match=r"127\.0\.0\.1:1 does not answer within 2 s"):
        look_at_topics(spark, kafka(nobody), 2)
    unknown = {"kafka": {"bootstrapServers": "no-such-host.invalid:9092", "topics": ["none"]}}
    with pytest.raises(SourceUnreachable, match="no-such-host"):
        look_at_topics(spark, kafka(unknown), 2)
    options = {"kafka.security.protocol": "NONE"}
    with pytest.raises(SourceOptionsRefused, match="NONE"):
        look_at_topics(spark, kafka(new_topic().source(options=options)), 2)
