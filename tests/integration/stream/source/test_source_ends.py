"""A source that lost data before it was ingested, or does not answer: the exit code differs, nothing is written."""

from __future__ import annotations

from typing import Any

import pytest

from bucketingest.cli.exit_code_of_error import exit_code
from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode
from support.jobs.stream_runs import Lake, NewTopic, Runner, messages

pytestmark = pytest.mark.kafka

FORMAT = {"type": "json", "schema": "id BIGINT, seq BIGINT"}
TABLE = {"recordKey": ["id"], "orderingField": "seq", "index": {"buckets": 2}}


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": number, "seq": number} for number in range(first, first + count)]


def test_a_recreated_topic_is_lost_data(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.send(messages(rows(0, 100), "id"))
    resource = lake.resource(topic.source(), table=TABLE, format=FORMAT)
    progress = run.once(resource)
    assert (progress.lag_offsets, progress.lag_seconds, progress.verdict) == (0, 0, "new")
    topic.broker.delete_topic(topic.name)
    topic.broker.create_topic(topic.name)
    topic.send(messages(rows(1000, 5), "id"))
    with pytest.raises(BucketIngestError) as ended:
        run.once(resource)
    assert exit_code(ended.value) is ExitCode.SOURCE_DATA_LOST, str(ended.value)
    assert "offset was changed" in str(ended.value)
    assert lake.rows().num_rows == 100


def test_a_broker_that_does_not_answer_is_an_unavailable_source(run: Runner, lake: Lake) -> None:
    options = {"kafka.request.timeout.ms": "1000", "kafka.default.api.timeout.ms": "2000"}
    kafka = {"kafka": {"bootstrapServers": "127.0.0.1:1", "topics": ["none"], "options": options}}
    with pytest.raises(BucketIngestError) as ended:
        run.once(lake.resource(kafka, table=TABLE, format=FORMAT))
    assert exit_code(ended.value) is ExitCode.SOURCE_UNAVAILABLE, str(ended.value)
