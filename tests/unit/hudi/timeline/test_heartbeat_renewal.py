"""The heartbeat of an instant while its tasks run."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta

import pytest

from bucketingest.hudi.timeline.heartbeat import beating, last_beat
from bucketingest.storage import Storage, open_storage
from support.storage.flaky_storage import FlakyStorage

INSTANT = "20261121080000000"
AT_ONCE = timedelta(0)


class Beats:
    """Counts the beats of an instant; `third` is set at the third one."""

    def __init__(self) -> None:
        self.count = 0
        self.third = threading.Event()

    def __call__(self, path: str) -> bool:
        self.count += 1
        if self.count == 3:
            self.third.set()
        return False


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}")


def test_an_instant_beats_for_as_long_as_its_tasks_run(storage: Storage) -> None:
    beats = Beats()
    with beating(FlakyStorage(storage, beats), INSTANT, AT_ONCE):
        assert beats.third.wait(30)
    assert last_beat(storage, INSTANT) is not None
    count = beats.count
    assert not [thread for thread in threading.enumerate() if thread.name == f"heartbeat-{INSTANT}"]
    assert beats.count == count


def test_a_missed_beat_does_not_end_the_beating(storage: Storage) -> None:
    beats = Beats()

    def fail_twice(path: str) -> bool:
        beats(path)
        return beats.count <= 2

    with beating(FlakyStorage(storage, fail_twice), INSTANT, AT_ONCE):
        assert beats.third.wait(30)


def test_short_tasks_cost_no_beat(storage: Storage) -> None:
    beats = Beats()
    with beating(FlakyStorage(storage, beats), INSTANT):
        pass
    assert beats.count == 0


def test_the_beating_ends_when_the_tasks_fail(storage: Storage) -> None:
    with pytest.raises(ZeroDivisionError), beating(storage, INSTANT, AT_ONCE):
        _ = 1 // 0
    assert not [thread for thread in threading.enumerate() if thread.name == f"heartbeat-{INSTANT}"]
