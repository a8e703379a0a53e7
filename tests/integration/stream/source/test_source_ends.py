"""A source that does not answer a run that ends with its input: its exit code is its own, nothing is written."""

from __future__ import annotations

import pytest

from bucketingest.cli.exit_code_of_error import exit_code
from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode
from bucketingest.stream import running
from support.jobs.stream_runs import Lake, Runner

pytestmark = pytest.mark.kafka

FORMAT = {"type": "json", "schema": "id BIGINT, seq BIGINT"}
TABLE = {"recordKey": ["id"], "orderingField": "seq", "index": {"buckets": 2}}


def test_a_broker_that_does_not_answer_is_an_unavailable_source(
    run: Runner, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "ONCE_WAITS_SECONDS", 1.0)
    options = {"kafka.request.timeout.ms": "1000", "kafka.default.api.timeout.ms": "2000"}
    kafka = {"kafka": {"bootstrapServers": "127.0.0.1:1", "topics": ["none"], "options": options}}
    with pytest.raises(BucketIngestError) as ended:
        run.once(lake.resource(kafka, table=TABLE, format=FORMAT))
    assert exit_code(ended.value) is ExitCode.SOURCE_UNAVAILABLE, str(ended.value)
    assert "Kafka at 127.0.0.1:1 does not answer" in str(ended.value)
