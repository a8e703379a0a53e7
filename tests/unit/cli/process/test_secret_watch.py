"""A rotated Secret ends a driver that the operator starts again, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketingest.cli.process.secret_watch import EVERY_SECONDS, STOP_VARIABLE, SecretWatch
from bucketingest.spec.fields.pod import Volume
from bucketingest.spec.fields.source_secret import OPTIONS_VARIABLE
from bucketingest.spec.model import BucketIngestSpec
from support.operator.observations import bucket_ingest

KAFKA = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"], "secretRef": {"name": "login"}}}
FORMAT = {"type": "json", "schema": "value BIGINT"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kafka.sasl.jaas.config").write_text("first")
    return tmp_path


def watch(folder: Path, clock: Clock, *volumes: Volume, stops: str = "true") -> SecretWatch:
    """Of a Secret's options; with volumes of these instead."""
    spec = bucket_ingest({} if volumes else {"source": KAFKA, "format": FORMAT}).spec
    return SecretWatch(mounting(spec, *volumes), {OPTIONS_VARIABLE: str(folder), STOP_VARIABLE: stops}, clock)


def mounting(spec: BucketIngestSpec, *volumes: Volume) -> BucketIngestSpec:
    return spec.model_copy(update={"pod": spec.pod.model_copy(update={"volumes": volumes})})


def volume(folder: Path, **source: str) -> Volume:
    """One that is mounted in a test's folder."""
    return Volume.model_validate({"name": "any", "mountPath": "/mnt/any", **source}).model_copy(
        update={"mount_path": str(folder)}
    )


def swap(folder: Path, version: str, content: dict[str, str]) -> None:
    """Bring another content into the folder as a kubelet does: whole, by one link."""
    (folder / version).mkdir(parents=True)
    for key, value in content.items():
        (folder / version / key).write_text(value)
        if not (folder / key).is_symlink():
            (folder / key).symlink_to(f"..data/{key}")
    (folder / "..new").symlink_to(version)
    (folder / "..new").rename(folder / "..data")


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
    without = SecretWatch(bucket_ingest().spec, {OPTIONS_VARIABLE: str(folder), STOP_VARIABLE: "true"}, clock)
    found = [watch(folder, clock, stops=""), watch(folder, clock, volume(folder, secret="any"), stops=""), without]
    (folder / "kafka.sasl.jaas.config").write_text("second")
    clock.now = EVERY_SECONDS
    assert not any(each.changed() for each in found)


@pytest.mark.parametrize("kind", ["secret", "configMap"])
def test_a_certificate_that_was_renewed_is_noticed_by_its_content(tmp_path: Path, kind: str) -> None:
    clock, certificates = Clock(), tmp_path / "certificates"
    swap(certificates, "..1", {"ca.crt": "ca", "tls.crt": "old"})
    watched = watch(tmp_path, clock, volume(certificates, **{kind: "any"}))
    swap(certificates, "..2", {"ca.crt": "ca", "tls.crt": "old"})
    clock.now = EVERY_SECONDS
    assert not watched.changed(), "written again"
    swap(certificates, "..3", {"ca.crt": "ca", "tls.crt": "new"})
    clock.now = 2 * EVERY_SECONDS
    assert watched.changed()


def test_files_of_a_claim_and_what_cannot_be_read_end_nothing(tmp_path: Path) -> None:
    clock, claimed, secret = Clock(), tmp_path / "claimed", tmp_path / "secret"
    swap(claimed, "..1", {"file": "old"})
    swap(secret, "..1", {"key": "old"})
    volumes = volume(claimed, persistentVolumeClaim="any"), volume(secret, secret="any")
    watched = watch(tmp_path, clock, *volumes)
    swap(claimed, "..2", {"file": "new"})
    (secret / "..data").unlink()
    clock.now = EVERY_SECONDS
    assert not watched.changed()
