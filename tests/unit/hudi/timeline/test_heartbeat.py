"""Heartbeats: where they lie and when they count as expired."""

from datetime import UTC, datetime, timedelta

from bucketingest.hudi.timeline.heartbeat import beat, is_expired, last_beat, stop
from bucketingest.storage.factory import open_storage

NOW = datetime(2026, 11, 21, tzinfo=UTC)
T = "20261121081713004"


def test_a_heartbeat_is_an_empty_file_named_after_the_instant() -> None:
    storage = open_storage("memory://heartbeat")
    assert last_beat(storage, T) is None
    beat(storage, T)
    beat(storage, T)
    assert storage.get(f".hoodie/.heartbeat/{T}") == b""
    assert last_beat(storage, T) is not None
    stop(storage, T)
    stop(storage, T)
    assert last_beat(storage, T) is None


def test_two_beats_may_be_missing() -> None:
    assert not is_expired(NOW - timedelta(seconds=120), NOW)
    assert is_expired(NOW - timedelta(seconds=120, milliseconds=1), NOW)


def test_an_instant_without_heartbeat_is_expired() -> None:
    assert is_expired(None, NOW)
