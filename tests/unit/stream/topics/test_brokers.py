"""What Kafka's client raises becomes a sentence that says what, where and what to do. No JVM is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.spec.fields.source import KafkaSource
from bucketingest.stream.errors import SourceDenied, SourceOptionsRefused, SourceUnreachable
from bucketingest.stream.topics.brokers import client_properties, explained

SOURCE = KafkaSource.model_validate({"bootstrapServers": "kafka:9092", "topics": ["orders", "returns"]})
_KAFKA = "org.apache.kafka.common"
EXECUTION = ("java.util.concurrent.ExecutionException", f"{_KAFKA}.errors.X: said")


@pytest.mark.parametrize(
    ("causes", "kind", "said"),
    [
        (
            [EXECUTION, (f"{_KAFKA}.errors.TimeoutException", "Timed out waiting for a node assignment.")],
            SourceUnreachable,
            "does not answer within 20 s (Timed out waiting for a node assignment.): check spec.source.kafka.bootstrap",
        ),
        ([("java.util.concurrent.TimeoutException", "")], SourceUnreachable, "does not answer within 20 s"),
        (
            [EXECUTION, (f"{_KAFKA}.errors.SaslAuthenticationException", "Authentication failed")],
            SourceDenied,
            "Kafka at kafka:9092 denies access: Authentication failed; check spec.source.kafka.options",
        ),
        (
            [EXECUTION, (f"{_KAFKA}.errors.TopicAuthorizationException", "Not authorized: [orders]")],
            SourceDenied,
            "Not authorized",
        ),
        (
            [
                (f"{_KAFKA}.KafkaException", "Failed to create new KafkaAdminClient"),
                (f"{_KAFKA}.config.ConfigException", "No resolvable bootstrap urls given in bootstrap.servers"),
            ],
            SourceUnreachable,
            "Kafka at kafka:9092 has no known address",
        ),
        (
            [
                (f"{_KAFKA}.KafkaException", "Failed to create new KafkaAdminClient"),
                (f"{_KAFKA}.config.ConfigException", "Invalid value NONE for security.protocol"),
            ],
            SourceOptionsRefused,
            "Kafka's client cannot be made: Invalid value NONE for security.protocol; check",
        ),
    ],
)
def test_a_failure_is_explained(causes: list[tuple[str, str]], kind: type[BucketIngestError], said: str) -> None:
    error = explained(causes, SOURCE, 20)
    assert type(error) is kind
    assert said in str(error)


def test_the_client_has_the_sources_options_and_limits_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafka.sasl.jaas.config").write_text("secret\n")
    monkeypatch.setenv("BUCKETINGEST_SOURCE_OPTIONS", str(tmp_path))
    source = KafkaSource.model_validate(
        {
            "bootstrapServers": "kafka:9092",
            "topics": ["orders"],
            "options": {"kafka.security.protocol": "SASL_SSL", "failOnDataLoss": "false"},
            "secretRef": {"name": "access"},
        }
    )
    assert client_properties(source, 20) == {
        "bootstrap.servers": "kafka:9092",
        "security.protocol": "SASL_SSL",
        "isolation.level": "read_committed",
        "sasl.jaas.config": "secret",
        "default.api.timeout.ms": "20000",
        "request.timeout.ms": "20000",
    }
