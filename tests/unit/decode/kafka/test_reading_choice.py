"""Who reads Kafka, said before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bucketingest.decode.kafka import reading_choice
from bucketingest.decode.kafka.reading_choice import Reading, reading_of
from bucketingest.spec.errors import SpecError
from bucketingest.spec.fields.source_secret import OPTIONS_VARIABLE
from bucketingest.spec.model import BucketIngest
from support.jobs.stream_runs import Lake


def resource(**kafka: Any) -> BucketIngest:
    source = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"], **kafka}}
    format_ = {"type": "json", "schema": "id STRING"}
    return Lake(Path("/lake")).resource(source, format=format_, table={"recordKey": ["id"]})


def said(settings: dict[str, str] | None = None, **kafka: Any) -> str:
    return str(reading_of(resource(**kafka), settings or {}))


def test_tasks_read_unless_an_option_is_only_for_java() -> None:
    assert said() == "reading Kafka in the tasks"
    options = {"kafka.sasl.login.class": "com.example.Login"}
    assert said(options=options) == (
        "reading Kafka through Spark: the options set kafka.sasl.login.class, which only Java's client knows"
    )


def test_a_source_of_another_kind_has_no_such_choice() -> None:
    rows = {"rate": {"rowsPerSecond": 1}}
    assert reading_of(Lake(Path("/lake")).resource(rows, table={"recordKey": ["value"]}), {}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.kafka.clusters.a.auth.bootstrap.servers", "kafka:9092"),
        ("spark.executor.extraJavaOptions", "-Djavax.net.ssl.trustStore=/store -Da=b"),
    ],
)
def test_a_setting_of_spark_that_changes_how_javas_client_connects_leaves_it_to_spark(name: str, value: str) -> None:
    assert said({name: value}) == f"reading Kafka through Spark: {name} is only for Java's client"


def test_without_the_library_spark_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_choice, "LIBRARY", "no_such_library")
    assert said() == "reading Kafka through Spark: confluent-kafka is not installed"


def test_options_in_secrets_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = resource(secretRef={"name": "access"})
    with pytest.raises(SpecError, match="access"):
        reading_of(wanted, {})
    monkeypatch.setenv(OPTIONS_VARIABLE, str(tmp_path))
    (tmp_path / "kafka.security.protocol").write_text("SASL_SSL\n")
    (tmp_path / "kafka.sasl.mechanism").write_text("GSSAPI\n")
    assert reading_of(wanted, {}) == Reading(None, "kafka.sasl.mechanism is GSSAPI")
