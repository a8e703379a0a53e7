"""Pods that share a round: each chunk is merged once if they live, and is merged, whichever of them dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from bucketingest.cli.process.signals import StoppedEarly
from bucketingest.services.compaction.records import CompactionJournal, Work
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.errors import RoundEnded
from bucketingest.services.pods.claims import ATTEMPTS_MAX, DEAD_AFTER, Claims
from bucketingest.services.pods.shared_round import SharedRound, share_round
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage, StorageUnavailable
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.passing_storage import PassingStorage
from support.tables.services.compactions import Written, finish, holder, roll_back, started, written


@dataclass
class Counting(PassingStorage):
    """Counts how often each base file is created."""

    inner: Storage
    made: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__init__(self.inner)

    def create(self, path: str, data: Any) -> None:
        if path.endswith(".parquet"):
            self.made[path] += 1
        super().create(path, data)


@dataclass
class Round:
    """An open round of four chunks, and a clock that moves while a pod waits."""

    given: Written
    work: Work
    now: float = 1000.0
    waits: int = 0
    meanwhile: Callable[[], object] = lambda: None

    def claims(self, index: int, storage: Storage | None = None) -> Claims:
        number, round_number = self.work.number, self.work.round_number
        return Claims(storage or self.given.storage, number, round_number, f"pod {index}", forward=lambda: self.now)

    def pod(self, index: int = 0, storage: Storage | None = None) -> SharedRound:
        return SharedRound(
            storage or self.given.storage,
            self.work.number,
            self.work.round_number,
            index=index,
            of=2,
            sleep=self._sleep,
            claims=self.claims(index, storage),
        )

    def _sleep(self, seconds: float) -> None:
        self.waits += 1
        self.now += seconds
        self.meanwhile()
        assert self.waits < 99, "it waits for ever"

    def objects(self, kind: str) -> list[str]:
        root = CompactionJournal(self.given.storage).path(self.work.number, f"round/{self.work.round_number}/{kind}")
        return sorted(info.path for info in self.given.storage.list(root))


@pytest.fixture
def opened() -> Round:
    given = written(base_files=True)
    return Round(given, started(given.storage))


def killed(storage: Storage, run: Callable[..., object], dies_at: int) -> bool:
    """Run it on a storage on which the process is killed at this change; whether it was."""
    crashing = CrashingStorage(storage, dies_at)
    with suppress(Crash):
        run(crashing)
    return crashing.dead


def test_a_pod_alone_does_everything(opened: Round) -> None:
    assert opened.pod().run() == 0
    assert finish(opened.given.storage) == [End.COMPLETED]
    opened.given.unchanged()
    assert opened.waits == 0


def test_what_another_pod_holds_is_left_to_it(opened: Round) -> None:
    storage = Counting(opened.given.storage)
    executor = RoundExecutor(storage, opened.work.number, opened.work.round_number)
    with opened.claims(1, storage).holding_one([1, 0]) as held:
        assert held is not None
        opened.meanwhile = lambda: executor.run_chunk(held.chunk)
        opened.pod(0, storage).run()
    assert opened.waits == 1
    assert set(storage.made.values()) == {1}
    assert finish(opened.given.storage) == [End.COMPLETED]
    opened.given.unchanged()


def test_pods_begin_at_different_chunks(opened: Round) -> None:
    assert [opened.pod(index)._open_chunks() for index in (0, 1)] == [[0, 1, 2, 3], [2, 3, 0, 1]]


def test_the_pod_that_replaces_a_killed_one_goes_on_at_once() -> None:
    dies_at, died = 0, True
    while died:
        given = written(base_files=dies_at % 2 == 0)
        its = Round(given, started(given.storage))
        died = killed(given.storage, lambda storage, its=its: its.pod(0, storage).run(), dies_at)
        its.pod(0).run()
        assert its.waits == 0
        assert finish(given.storage) == [End.COMPLETED]
        given.unchanged()
        dies_at += 1
    assert dies_at > 10


def test_a_killed_pods_work_is_taken_over_when_its_claim_is_not_renewed_any_more(opened: Round) -> None:
    before = opened.now
    assert killed(opened.given.storage, lambda storage: opened.pod(1, storage).run(), 3)
    opened.pod(0).run()
    assert opened.now - before >= DEAD_AFTER.total_seconds()
    assert finish(opened.given.storage) == [End.COMPLETED]
    opened.given.unchanged()


def test_a_claim_that_is_renewed_is_respected_however_long(opened: Round) -> None:
    with opened.claims(1).holding_one([1]) as held:
        assert held is not None

        def meanwhile() -> None:
            held.note()
            if opened.waits == 50:
                RoundExecutor(opened.given.storage, opened.work.number, opened.work.round_number).run_chunk(1)

        opened.meanwhile = meanwhile
        opened.pod(0).run()
    assert opened.waits == 50
    assert [path for path in opened.objects("claim") if path.endswith("/2")] == []


def test_a_pod_that_wakes_up_after_it_was_replaced_changes_nothing(opened: Round) -> None:
    storage = opened.given.storage
    executor = RoundExecutor(storage, opened.work.number, opened.work.round_number)
    with opened.claims(1).holding_one([1]) as held:
        assert held is not None
        opened.pod(0).run()
        assert finish(storage) == [End.COMPLETED]
        with pytest.raises(RoundEnded):
            executor.run_chunk(held.chunk, starts=held.starts)
    assert finish(storage) == []
    opened.given.unchanged()


@pytest.mark.parametrize("ends", [Crash, StoppedEarly, StorageUnavailable], ids=["killed", "evicted", "storage away"])
def test_an_operation_that_no_pod_ends_is_given_up(opened: Round, ends: type[BaseException]) -> None:
    """The kernel kills a pod without a word; a node without memory or disk tells it to stop first."""
    storage = opened.given.storage

    class TooLarge(PassingStorage):
        def create(self, path: str, data: Any) -> None:
            if path.endswith(".parquet") and "eu/00000000" in path:
                self.ended = True
                raise ends("too large")
            super().create(path, data)

        def _change(self, path: str, act: Callable[[], None]) -> None:
            if ends is Crash and getattr(self, "ended", False):
                raise Crash
            super()._change(path, act)

    attempts = 0
    while True:
        try:
            failed = opened.pod(0, TooLarge(storage)).run()
        except ends:
            attempts += 1
            assert attempts <= ATTEMPTS_MAX
        else:
            break
    assert (attempts, failed, opened.waits) == (ATTEMPTS_MAX, 1, 0)
    assert finish(storage) == [End.COMPLETED]
    opened.given.unchanged()


def test_a_pod_that_is_stopped_gives_its_chunk_back(opened: Round) -> None:
    """Also to a pod that waits for it, and has seen it at work."""
    waiting = opened.claims(0)

    def stopped() -> None:
        with opened.claims(1).holding_one([1]), waiting.holding_one([1]) as held:
            assert held is None
            raise StoppedEarly

    with pytest.raises(StoppedEarly):
        stopped()
    with waiting.holding_one([1]) as held:
        assert held is not None
    opened.pod(0).run()
    assert opened.waits == 0


def test_a_claim_that_cannot_be_read_is_a_hint_like_any_other(opened: Round) -> None:
    root = CompactionJournal(opened.given.storage).path(opened.work.number, f"round/{opened.work.round_number}/claim")
    opened.given.storage.put(f"{root}/0/1", b"{")
    opened.given.storage.put(f"{root}/notes.txt", b"")
    opened.pod(0).run()
    assert finish(opened.given.storage) == [End.COMPLETED]


def test_pods_of_an_ended_round_end(opened: Round) -> None:
    number, round_number = opened.work.number, opened.work.round_number
    storage = opened.given.storage
    opened.pod(0).run()
    assert finish(storage) == [End.COMPLETED]
    assert share_round(storage, number, round_number, index=0, of=1) is None
    assert share_round(storage, number, round_number + 1, index=0, of=1) is None
    assert share_round(storage, number + 1, 1, index=0, of=1) is None


def test_a_pod_that_waits_notices_that_the_round_has_ended(opened: Round) -> None:
    storage = opened.given.storage

    def another_round() -> None:
        roll_back(opened.given, opened.work, finished=True)
        holder(storage).advance()

    opened.meanwhile = another_round
    with opened.claims(1).holding_one([0]), opened.claims(2).holding_one([1]), pytest.raises(RoundEnded):
        opened.pod(0).run()
    assert finish(storage) == [End.COMPLETED]
    opened.given.unchanged()


def test_a_release_that_merges_otherwise_fails_so_that_its_job_is_seen_to_fail(
    opened: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bucketingest.services.compaction.rounds.MERGE_VERSION", 99)
    with pytest.raises(RoundEnded, match="merges otherwise"):
        share_round(opened.given.storage, opened.work.number, opened.work.round_number, index=0, of=1)
