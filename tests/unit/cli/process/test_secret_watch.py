"""A rotated Secret ends a driver that the operator starts again, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketingest.cli.process.secret_watch import EVERY_SECONDS, STOP_VARIABLE, SecretWatch
from bucketingest.spec.fields.source import KafkaSource
from bucketingest.spec.fields.source_secret import OPTIONS_VARIABLE

KAFKA = KafkaSource.model_validate(
    {"bootstrapServers": "kafka:9092", "topics": ["orders"], "secretRef": {"name": "login"}}
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kafka.sasl.jaas.config").write_text("first")
    return tmp_path


def watch(folder: Path, clock: Clock, kafka: KafkaSource | None = KAFKA, *, stops: str = "true") -> SecretWatch:
    return SecretWatch(kafka, {OPTIONS_VARIABLE: str(folder), STOP_VARIABLE: stops}, clock)


def test_a_new_value_is_noticed_within_half_a_minute_and_not_looked_for_more_often(folder: Path) -> None:
    clock = Clock()
    watched = watch(folder, clock)
    (folder / "kafka.sasl.jaas.config").write_text("second")
    assert not watched.changed()
    clock.now = EVERY_SECONDS
    assert watched.changed()


def test_values_that_were_written_again_have_not_changed(folder: Path) -> None:
    clock = Clock()
    watched = watch(folder, clock)
    (folder / "kafka.sasl.jaas.config").write_text("first\n")
    clock.now = EVERY_SECONDS
    assert not watched.changed()


@pytest.mark.parametrize("damage", ["gone", "unusable"])
def test_a_secret_that_cannot_be_used_ends_nothing(folder: Path, damage: str) -> None:
    clock = Clock()
    watched = watch(folder, clock)
    (folder / "kafka.sasl.jaas.config").unlink()
    if damage == "gone":
        folder.rmdir()
    else:
        (folder / "subscribe").write_text("other")
    clock.now = EVERY_SECONDS
    assert not watched.changed()


def test_without_someone_who_starts_the_job_again_nothing_is_watched(folder: Path) -> None:
    clock = Clock()
    found = [watch(folder, clock, stops=""), watch(folder, clock, None)]
    (folder / "kafka.sasl.jaas.config").write_text("second")
    clock.now = EVERY_SECONDS
    assert not any(each.changed() for each in found)
