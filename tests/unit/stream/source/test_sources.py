"""Which options Spark's Kafka source is given, and in which order: the later one wins."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from bucketingest.spec.errors import SpecError
from bucketingest.spec.fields.source_secret import OPTIONS_VARIABLE
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.source.sources import read_source


class Reader:
    """Notes what it is given; names of options count without regard to case, as Spark takes them."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def format(self, _: str) -> Self:
        return self

    def option(self, name: str, value: object) -> Self:
        self.given[name.lower()] = str(value)
        return self

    def options(self, **options: object) -> Self:
        for name, value in options.items():
            self.option(name, value)
        return self

    def load(self) -> Self:
        return self


def given(**kafka: Any) -> dict[str, str]:
    """Options for a source with these fields."""
    document = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": "t"},
        "spec": {
            "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"], **kafka}},
            "format": {"type": "json", "schema": "id STRING"},
            "table": {"path": "/lake/t", "recordKey": ["id"]},
        },
    }
    reader = Reader()
    read_source(SimpleNamespace(readStream=reader), BucketIngest.from_document(document))  # type: ignore[arg-type]
    return reader.given


def test_the_fields_of_the_source_win_over_its_options() -> None:
    options = given(options={"kafka.group.id": "loaders"}, maxOffsetsPerTrigger=5)
    assert options["kafka.group.id"] == "loaders"
    assert options["kafka.bootstrap.servers"] == "kafka:9092"
    assert (options["subscribe"], options["maxoffsetspertrigger"]) == ("orders", "5")


def test_the_options_of_the_secret_win_over_those_in_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafka.sasl.jaas.config").write_text("x.PlainLoginModule required;\n")
    (tmp_path / "kafka.sasl.mechanism").write_text("PLAIN")
    monkeypatch.setenv(OPTIONS_VARIABLE, str(tmp_path))
    options = given(options={"kafka.sasl.mechanism": "GSSAPI"}, secretRef={"name": "s"})
    assert options["kafka.sasl.mechanism"] == "PLAIN"
    assert options["kafka.sasl.jaas.config"] == "x.PlainLoginModule required;"


def test_without_the_secret_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OPTIONS_VARIABLE, raising=False)
    with pytest.raises(SpecError, match="secretRef"):
        given(secretRef={"name": "s"})
