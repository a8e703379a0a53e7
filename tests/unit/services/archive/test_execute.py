"""An archival as a whole: what is where afterwards, after a crash at any step, and beside other writers."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.errors import TimelineError
from bucketingest.hudi.naming import TIMELINE_DIRECTORY, LogFileName
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.timeline.history import archived_instants
from bucketingest.hudi.timeline.history_manifest import VERSION_PATH, load_manifest
from bucketingest.hudi.timeline.history_writer import publish, write_history_file
from bucketingest.hudi.timeline.instant import CLEAN, COMMIT, ROLLBACK, Instant
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.archive import execute
from bucketingest.services.archive.choose import ArchiveRules, Held
from bucketingest.services.archive.execute import ArchiveResult, archive, put_back
from bucketingest.services.archive.horizon import HORIZONS, raise_horizon, read_horizon
from bucketingest.storage import ConditionalStorage, Data, Storage, Version
from bucketingest.write.instants.commit_content import PIPELINE, RANGES
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.passing_storage import PassingStorage
from support.tables.old_timelines import NOW, at, done, finish, finished, history_files_of, old_table, timeline_files

RULES = ArchiveRules(keep_min=2)
WRITES = [at(minutes) for minutes in (200, 190, 180, 170, 160, 150)]
SERVICES = [(at(185), CLEAN), (at(175), ROLLBACK)]


class FencedOut(Exception):
    """The lease is lost."""


def unchecked() -> None:
    """A process that may go on."""


def run(
    storage: Storage,
    held: Held | None = None,
    *,
    rules: ArchiveRules = RULES,
    check: Callable[[], None] = unchecked,
    lock: Callable[[], object] = nullcontext,
) -> ArchiveResult:
    return archive(storage, held or Held(), lock=lock, check=check, rules=rules, clock=lambda: NOW)  # type: ignore[arg-type]


def table() -> Storage:
    return old_table(WRITES, SERVICES)


def all_instants(storage: Storage) -> set[Instant]:
    """The union of active timeline and history."""
    return {*Timeline.load(storage).completed, *archived_instants(storage)}


def paths(storage: Storage) -> set[str]:
    return {info.path for info in storage.list("")}


def test_what_is_archived_leaves_the_timeline_with_all_of_its_files() -> None:
    storage = table()
    before = all_instants(storage)
    create_marker(storage, WRITES[0], "eu", "left")
    create_marker(storage, WRITES[5], "eu", "not ours to delete")
    result = run(storage)
    gone = [*WRITES[:4], *(time for time, _ in SERVICES)]
    assert [instant.request_time for instant in result.instants] == sorted(gone)
    assert archived_instants(storage) == result.instants
    assert {instant.request_time for instant in Timeline.load(storage).instants} == set(WRITES[4:])
    assert not [name for name in timeline_files(storage) if name.startswith(tuple(gone))]
    assert all_instants(storage) == before
    assert read_horizon(storage) == WRITES[3]
    assert [path for path in paths(storage) if "/.temp/" in path] == [
        f".hoodie/.temp/{WRITES[5]}/eu/not ours to delete.marker.CREATE"
    ]


def test_a_second_run_finds_nothing_and_changes_nothing() -> None:
    storage = table()
    run(storage)
    before = paths(storage)
    assert run(storage) == ArchiveResult()
    assert paths(storage) == before


def test_a_compactions_row_has_its_plan() -> None:
    storage = old_table(WRITES)
    for time in (at(195), at(155)):
        finish(storage, time, COMMIT)
    assert at(195) in [instant.request_time for instant in run(storage).instants]
    (entry,) = load_manifest(storage).entries
    assert f"plan of {at(195)}".encode() in _column(storage, entry.name, "plan")


def _column(storage: Storage, name: str, column: str) -> list[bytes | None]:
    data = storage.get(f"{TIMELINE_DIRECTORY}/history/{name}")
    return pq.read_table(io.BytesIO(data))[column].to_pylist()


def test_pins_of_the_tables_files_are_found() -> None:
    storage = table()
    storage.create(f"eu/{LogFileName('00000000-0000-0000-0000-000000000000-0', WRITES[1], 1)}", b"")
    result = run(storage)
    assert [instant.request_time for instant in result.instants] == WRITES[:1]
    assert [(pin.instant, pin.group) for pin in result.pins] == [
        (WRITES[1], ("eu", "00000000-0000-0000-0000-000000000000-0"))
    ]


def test_what_the_caller_holds_stays() -> None:
    storage = table()
    assert run(storage, Held(kept={WRITES[0]: "its journal is not done"})).instants == ()
    assert "history" not in "".join(paths(storage))


def test_a_write_that_becomes_old_during_the_run_waits_for_the_next() -> None:
    """Nobody has looked whether it has the newest position of a pipeline."""
    storage = old_table(WRITES)
    idle = at(145)
    finish(storage, idle, **{PIPELINE: "idle", RANGES: "[]"})
    for time in (at(144), at(143)):
        finish(storage, time, schema="{}")
    ages = iter([timedelta(minutes=-86), *[timedelta()] * 9])
    held, rules = Held(), replace(RULES, min_age=timedelta(minutes=60))
    result = archive(storage, held, lock=nullcontext, check=unchecked, rules=rules, clock=lambda: NOW + next(ages))
    assert [instant.request_time for instant in result.instants] == WRITES
    again = run(storage)
    assert again.instants == ()
    assert [pin.instant for pin in again.pins] == [idle]


def test_instants_with_much_content_go_in_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = table()
    monkeypatch.setattr(execute, "BYTES_MAX", 1)
    assert [len(run(storage).instants) for _ in range(7)] == [1, 1, 1, 1, 1, 1, 0]
    assert len(archived_instants(storage)) == 6


class Conditional(CrashingStorage):
    """Dies, too, at a swap."""

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        self._before_read()
        assert isinstance(self._inner, ConditionalStorage)
        return self._inner.get_versioned(path)

    def replace(self, path: str, data: Data, version: Version) -> Version:
        written: list[Version] = []
        inner = self._inner
        assert isinstance(inner, ConditionalStorage)
        self._change(path, lambda: written.append(inner.replace(path, data, version)))
        return written[0]


@pytest.mark.parametrize("kind", [CrashingStorage, Conditional])
@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("later", [[], [at(140), at(130)]], ids=["same", "more"])
def test_a_crash_at_any_change_loses_no_instant_and_a_second_run_ends_it(
    kind: type[CrashingStorage], after_effect: bool, later: list[str]
) -> None:
    """`later`: instants that complete between the crash and the second run, so that it chooses others."""
    counted = kind(first_archived(), -1, after_effect=True)
    run(counted)
    assert counted.changes > 20
    for dies_at in range(counted.changes):
        storage = first_archived()
        before = all_instants(storage)
        with pytest.raises(Crash):
            run(kind(storage, dies_at, after_effect=after_effect))
        assert all_instants(storage) == before, f"after a crash at change {dies_at}"
        assert Timeline.load(storage).pending == (), "a completed file went before its pending ones"
        for time in later:
            finish(storage, time, schema='{"type": "record"}')
        run(storage)
        run(storage)
        expected = sorted([*WRITES, *later])
        left = {instant.request_time for instant in Timeline.load(storage).instants}
        assert left == set(expected[-2:]), f"after a crash at change {dies_at}"
        assert {name[:17] for name in timeline_files(storage)} == left
        rows = [row for entry in load_manifest(storage).entries for row in _column(storage, entry.name, "instantTime")]
        assert len(rows) == len(set(rows)), "no row was written twice"
        assert {instant.request_time for instant in all_instants(storage)} >= set(expected)


def first_archived() -> Storage:
    """A table of which a part was archived before."""
    storage = old_table([at(230), at(220), *WRITES], SERVICES)
    run(storage, rules=replace(RULES, instants_max=2))
    return storage


def test_readers_find_every_instant_between_any_two_steps() -> None:
    storage = first_archived()
    before = all_instants(storage)

    class Watched(PassingStorage):
        def _change(self, path: str, act: Callable[[], None]) -> None:
            act()
            assert all_instants(storage) == before, path
            completed = [each.request_time for each in Timeline.load(storage).completed]
            assert [time for time in WRITES if time in completed] == WRITES[
                -len([t for t in WRITES if t in completed]) :
            ]

    run(Watched(storage))
    assert len(Timeline.load(storage).instants) == 2


def test_the_horizon_is_there_before_the_first_deletion_and_completed_files_go_last_and_singly() -> None:
    storage = table()
    steps: list[str] = []

    class Recorded(PassingStorage):
        def delete(self, path: str) -> None:
            steps.append(f"delete {path}")
            super().delete(path)

        def delete_many(self, paths: object) -> None:
            for path in list(paths):  # type: ignore[call-overload]
                steps.append(f"delete many {path}")
                self._inner.delete(path)

        def _change(self, path: str, act: Callable[[], None]) -> None:
            act()
            if "/services/" in path or "/history/" in path:
                steps.append(f"put {path}")

    run(Recorded(storage))
    kinds = [step for step in steps if "crc" not in step]
    assert [kind.rpartition("/")[2] for kind in kinds[:4]] == [
        f"{WRITES[0]}_{WRITES[3]}_0.parquet", "manifest_1", "_version_", "000000000001",
    ]  # fmt: skip
    deleted = kinds[4:]
    completed = [step for step in deleted if "_" in step.rpartition("/")[2]]
    assert deleted[-len(completed) :] == completed == sorted(completed)
    assert all(step.startswith("delete .") for step in completed)
    pending = deleted[: -len(completed)]
    assert [step.endswith("requested") for step in pending] == [True] * 6 + [False] * 6


def test_a_lost_lease_stops_it_before_the_next_step() -> None:
    for allowed in range(6):
        storage = first_archived()
        before = all_instants(storage)
        steps = 0

        def check(allowed: int = allowed) -> None:
            nonlocal steps
            steps += 1
            if steps > allowed:
                raise FencedOut

        with pytest.raises(FencedOut):
            run(storage, check=check)
        assert all_instants(storage) == before
        assert timeline_files(storage) == timeline_files(first_archived()), "nothing was deleted"
        manifest = load_manifest(storage)
        assert (manifest.highest, manifest.published) == [(1, 1), (1, 1), (1, 1), (2, 1), (2, 2), (2, 2)][allowed]
    run(storage)
    assert len(Timeline.load(storage).instants) == 2


def test_what_changed_before_the_lock_was_held_is_looked_at_again() -> None:
    storage = table()

    @contextmanager
    def lock() -> Iterator[None]:
        storage.put(f"{TIMELINE_DIRECTORY}/{at(178)}.compaction.requested", b"")
        yield

    assert [each.request_time for each in run(storage, lock=lock).instants] == WRITES[:2]


def test_another_archiver_or_a_restore_before_the_lock_ends_the_run() -> None:
    storage = table()

    @contextmanager
    def lock() -> Iterator[None]:
        storage.delete(f"{TIMELINE_DIRECTORY}/{finished(WRITES[5])}")
        yield

    assert run(storage, lock=lock).instants == ()
    assert read_horizon(storage) == ""


def test_an_archiver_without_the_lock_that_hides_our_rows_ends_the_run_before_any_deletion() -> None:
    storage = table()
    before = timeline_files(storage)

    class Rival(PassingStorage):
        def put(self, path: str, data: Data) -> None:
            super().put(path, data)
            if path == VERSION_PATH:
                self._inner.put(f"{TIMELINE_DIRECTORY}/history/manifest_1", b'{"files": []}')

    with pytest.raises(TimelineError, match="without the table's lock"):
        run(Rival(storage))
    assert timeline_files(storage) == before
    assert read_horizon(storage) == ""


def test_the_history_is_merged_and_old_parts_of_it_go() -> None:
    storage = old_table([at(300 - number) for number in range(40)])
    one = replace(RULES, instants_max=1)
    for _ in range(30):
        run(storage, rules=one)
    names = [entry.name for entry in load_manifest(storage).entries]
    assert len(names) == 3
    assert {name.rpartition("_")[2] for name in names} == {"1.parquet"}
    assert len(archived_instants(storage)) == 30


def test_a_completed_file_that_a_paused_process_puts_back_is_removed() -> None:
    storage = table()
    run(storage)
    after = paths(storage)
    for name in (f"{WRITES[1]}.deltacommit.requested", f"{WRITES[1]}.deltacommit.inflight", finished(WRITES[1])):
        storage.create(f"{TIMELINE_DIRECTORY}/{name}", b"again")
        result = run(storage)
        assert [instant.request_time for instant in result.removed] == [WRITES[1]]
        assert paths(storage) == after


@pytest.mark.parametrize(
    "name",
    [f"{at(177)}.deltacommit.inflight", f"{WRITES[1]}_{done(at(1))}.deltacommit", f"{at(177)}_{at(1)}.deltacommit"],
)
def test_what_is_not_in_the_history_stays_and_so_does_what_follows_it(name: str) -> None:
    """Readers see committed files of the later one as long as it is on the timeline behind an older one."""
    storage = table()
    run(storage)
    for each in (name, finished(WRITES[3])):
        storage.create(f"{TIMELINE_DIRECTORY}/{each}", b"")
    horizon = read_horizon(storage)
    assert put_back(storage, Timeline.load(storage), horizon) == ()
    storage.create(f"{TIMELINE_DIRECTORY}/{finished(WRITES[0])}", b"")
    assert [i.request_time for i in put_back(storage, Timeline.load(storage), horizon)] == [WRITES[0]]
    assert {name, finished(WRITES[3])} <= timeline_files(storage)


def test_a_savepoint_and_its_commit_stay() -> None:
    storage = table()
    run(storage)
    for name in (finished(WRITES[1]), f"{WRITES[1]}_{done(WRITES[1])}.savepoint", finished(WRITES[2])):
        storage.create(f"{TIMELINE_DIRECTORY}/{name}", b"")
    removed = put_back(storage, Timeline.load(storage), read_horizon(storage))
    assert [instant.request_time for instant in removed] == [WRITES[2]]


def test_nothing_is_removed_while_another_archival_is_between_two_steps() -> None:
    storage = table()
    run(storage)
    storage.create(f"{TIMELINE_DIRECTORY}/{finished(WRITES[1])}", b"")
    storage.delete(VERSION_PATH)
    assert put_back(storage, Timeline.load(storage), read_horizon(storage)) == ()


def test_the_horizon_never_goes_down_and_three_objects_of_it_stay() -> None:
    storage = table()
    for minutes in (90, 80, 70, 60, 50):
        raise_horizon(storage, at(minutes), unchecked)
    raise_horizon(storage, at(999), unchecked)
    assert read_horizon(storage) == at(50)
    names = sorted(info.path.removeprefix(f"{HORIZONS}/") for info in storage.list(HORIZONS))
    assert names == ["000000000003", "000000000004", "000000000005"]


def test_a_horizons_number_that_is_taken_is_followed_by_the_next() -> None:
    storage = table()
    rivals = [at(10), at(9)]

    def rival_is_faster() -> None:
        if rivals:
            raise_horizon(storage, rivals.pop(), unchecked)

    raise_horizon(storage, at(5), rival_is_faster)
    assert read_horizon(storage) == at(5)


def test_rows_that_hudi_archived_before_it_died_are_not_written_again() -> None:
    storage = table()
    timeline = Timeline.load(storage)
    look = execute._Look.at(storage)
    rows = execute._rows(storage, look, timeline.completed[:3])
    publish(storage, write_history_file(storage, rows), (), unchecked)
    run(storage)
    names = history_files_of(storage)
    assert f"{WRITES[0]}_{SERVICES[0][0]}_0.parquet" in names
    assert len(load_manifest(storage).entries) == 2
    assert len(archived_instants(storage)) == 6
