"""Dead letters become rows once, older than what came since, wherever a retry is killed."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage
from bucketingest.stream.retry import letters
from bucketingest.stream.retry.letters import Asked, put_back
from bucketingest.stream.source.columns_schema import SchemaGrown
from bucketingest.write.errors import ColumnsChanged, RangeConflict
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.source_range import SourceRange
from support.jobs.retries import RetriedTable, event
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.other_writers import archive, roll_back_completed
from support.tables.table_runs import TestTable


@pytest.fixture
def table(tmp_path: Path) -> RetriedTable:
    return RetriedTable(tmp_path)


def test_a_letter_becomes_its_row_and_leaves_the_dead_letter_table(table: RetriedTable) -> None:
    table.send(event("c", 1, 10), event("c", 2, 20, odd=True))
    table.ingest()
    assert (table.rows(), len(table.left())) == ({1: 10}, 1)
    outcome = table.retry()
    assert (outcome.asked, outcome.retried, outcome.stay, len(outcome.commits)) == (1, 1, {}, 1)
    assert (table.rows(), table.left()) == ({1: 10, 2: 20}, [])
    assert table.retry().asked == 0
    table.send(event("c", 3, 30))
    table.ingest()
    assert table.rows() == {1: 10, 2: 20, 3: 30}


@pytest.mark.parametrize("in_one", [True, False], ids=["same micro-batch", "later ones"])
def test_a_letter_is_older_than_rows_and_deletes_that_came_since(table: RetriedTable, in_one: bool) -> None:
    later = [event("u", 1, 11), event("d", 2), (event("d", 2)[0], None), event("d", 3), event("c", 3, 31)]
    table.send(event("c", 1, 1), event("c", 2, 2), event("c", 3, 3))
    table.ingest()
    table.send(*(event("u", number, 5, odd=True) for number in (1, 2, 3, 4)))
    if not in_one:
        table.ingest()
    for each in later:
        table.send(each)
        if not in_one:
            table.ingest()
    table.ingest()
    assert table.retry().retried == 4
    assert (table.rows(), table.left()) == ({1: 11, 3: 31, 4: 5}, [])


def test_a_delete_that_was_a_letter_deletes_only_what_came_before_it(table: RetriedTable) -> None:
    table.send(event("c", 1, 1), event("c", 2, 2), event("d", 1, odd=True), event("d", 2, odd=True))
    table.ingest()
    table.send(event("c", 2, 22))
    table.ingest()
    table.retry()
    assert (table.rows(), table.left()) == ({2: 22}, [])


def test_only_what_is_asked_for_and_now_decodes_is_retried(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), (b'{"id": 2}', b"odd, and no JSON"))
    table.ingest()
    table.send(event("c", 3, 3, odd=True), event("c", 4, 4))
    table.ingest()
    assert table.retry(Asked(frozenset(["recordKey"]))).asked == 0
    second = max(letter["instant"] for letter in table.left())
    assert table.retry(Asked(since=second), dry_run=True).retried == 1
    assert len(table.left()) == 3, "a dry run changes nothing"
    assert table.retry(Asked(since=second)).retried == 1
    assert table.rows() == {3: 3, 4: 4}
    outcome = table.retry(Asked(until=second))
    assert (outcome.asked, outcome.retried, sum(outcome.stay.values())) == (2, 1, 1)
    assert [letter["offset"] for letter in table.left()] == [1], "it is still no row"
    assert table.rows() == {1: 1, 3: 3, 4: 4}


def test_letters_whose_later_messages_nobody_knows_stay(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2, odd=True), event("c", 3, 3, odd=True))
    table.ingest()
    table.begins[0] = 1
    table.topic[0][1] = None  # compacted away
    outcome = table.retry()
    assert (outcome.retried, list(outcome.stay.values())) == (1, [2])
    assert (table.rows(), [letter["offset"] for letter in table.left()]) == ({3: 3}, [0, 1])


def test_a_letter_of_a_topic_that_was_made_again_is_not_taken_for_another_message(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    table.ingest()
    table.topic[0][0] = event("c", 9, 9, odd=True)
    assert table.retry().retried == 0
    assert (table.rows(), len(table.left())) == ({2: 2}, 1)


def test_a_topic_that_is_made_again_meanwhile_gives_the_table_nothing(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    table.ingest()

    def confirm(of: SourceRange) -> None:
        assert of.again is not None
        raise RangeConflict("topic shop.orders was deleted and made again")

    with pytest.raises(RangeConflict):
        table.retry(confirm=confirm)
    table.send(event("c", 3, 3))
    table.ingest()
    assert (table.rows(), len(table.left())) == ({2: 2, 3: 3}, 1)


def test_keyless_messages_of_several_partitions_need_an_ordering_field(tmp_path: Path) -> None:
    table = RetriedTable(tmp_path / "without", 2)
    _, value = event("c", 1, 1, odd=True)
    table.send((None, value))
    table.ingest()
    (why,) = table.retry().stay
    assert "table.orderingField is not set" in why
    assert table.retry(appends=True).retried == 1

    table = RetriedTable(tmp_path / "with", 2, TableDefinition("orders", ("id",), (), "n", buckets=2))
    table.send((None, value))
    table.send(event("c", 1, 2), partition=1)
    table.ingest()
    assert table.retry().retried == 0, "of a delete in another partition nothing may be left"
    table.pipeline = replace(table.pipeline, delete_when=None)
    assert table.retry().retried == 1
    assert table.rows() == {1: 2}, "the greater ordering value wins"


def test_retried_letters_come_back_if_their_commit_is_lost(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    table.ingest()
    (instant,) = table.retry().commits
    name = table.pipeline.name
    assert put_back([table.letters], table.storage, name) == [], "it is there"
    of_it = [info.path for info in table.storage.list(".hoodie/timeline") if instant in info.path]
    table.storage.delete_many(of_it)  # as a restore of another writer
    (back,) = put_back([table.letters], table.storage, name)
    assert back.startswith(table.left()[0]["instant"]), "a rewind finds it by its instant"
    assert table.retry().retried == 1
    assert (table.rows(), table.left()) == ({1: 1, 2: 2}, [])


def test_retried_letters_come_back_if_their_commit_was_lost_long_ago(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    table.ingest()
    (instant,) = table.retry().commits
    writer = TestTable(table.definition)
    writer.storage = table.storage
    table.storage.delete_many([info.path for info in table.storage.list(".hoodie/timeline") if instant in info.path])
    archive(writer)
    table.send(event("c", 3, 3))
    table.ingest()
    assert writer.timeline().is_archived(instant), "its time is one of archived instants"
    assert len(put_back([table.letters], table.storage, table.pipeline.name)) == 1
    assert (table.retry().retried, len(table.left())) == (1, 0)
    assert put_back([table.letters], table.storage, table.pipeline.name) == []


def test_archived_commits_of_retries_are_not_lost(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    table.ingest()
    table.retry()
    writer = TestTable(table.definition)
    writer.storage = table.storage
    archive(writer)
    table.send(event("c", 3, 3))
    table.ingest()
    assert put_back([table.letters], table.storage, table.pipeline.name) == []


def test_a_letter_that_a_killed_retry_left_comes_back_once(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2, odd=True), event("c", 3, 3))
    table.ingest()
    before = table.left()
    with pytest.raises(Crash):
        table.retry(letters=CrashingStorage(table.letters, 1))  # it is committed, and kept; not yet taken out
    table.storage.delete_many(
        [info.path for info in table.storage.list(".hoodie/timeline") if _newest(table) in info.path]
    )
    put_back([table.letters], table.storage, table.pipeline.name)
    assert table.left() == before
    assert (table.retry().asked, table.rows()) == (2, {1: 1, 2: 2, 3: 3})


def _newest(table: RetriedTable) -> str:
    return max(each.request_time for each in Timeline.load(table.storage).completed_commits)


def test_letters_that_a_pipeline_of_this_name_retried_into_another_table_stay_away(tmp_path: Path) -> None:
    one, other = (RetriedTable(tmp_path / name) for name in ("one", "other"))
    other.letters = one.letters
    other.pipeline = replace(one.pipeline, table_url=other.storage.url)
    one.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    one.ingest()
    one.retry()
    assert put_back([one.letters], other.storage, other.pipeline.name) == [], "the table is new"
    other.send(event("c", 3, 3))
    other.ingest()
    assert put_back([one.letters], other.storage, other.pipeline.name) == []
    assert one.left() == []


@pytest.mark.parametrize("archived", [False, True], ids=["on the timeline", "archived"])
def test_rows_that_another_pipeline_has_written_since_stay(tmp_path: Path, archived: bool) -> None:
    table, other = (RetriedTable(tmp_path) for _ in range(2))
    other.pipeline = replace(table.pipeline, name="shop/other")
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    table.ingest()
    other.send(event("c", 1, 5))
    other.ingest()
    if archived:
        writer = TestTable(table.definition)
        writer.storage = table.storage
        archive(writer)
    table.send(event("c", 3, 3, odd=True), event("c", 4, 4))
    table.ingest()
    outcome = table.retry()
    assert (outcome.asked, outcome.retried) == (2, 1)
    assert archived or table.rows() == {1: 5, 2: 2, 3: 3, 4: 4}, "hudi-rs reads no history"
    (why,) = outcome.stay
    assert "another writer or pipeline has written" in why
    assert table.retry(appends=True).retried == 1, "no other row has its key"


def test_letters_that_come_again_with_their_instants_rows_do_not_come_back(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    table.ingest()
    (rejected,) = {letter["instant"] for letter in table.left()}
    (retried,) = table.retry().commits
    writer = TestTable(table.definition)
    writer.storage = table.storage
    for instant in (retried, rejected):
        roll_back_completed(writer, instant)
    table.ingest()
    put_back([table.letters], table.storage, table.pipeline.name)
    assert [letter["offset"] for letter in table.left()] == [0]


def test_pipelines_that_share_a_place_keep_their_letters(tmp_path: Path) -> None:
    one, other = (RetriedTable(tmp_path / name) for name in ("one", "other"))
    other.letters = one.letters
    other.pipeline = replace(one.pipeline, name="shop/other", table_url=other.storage.url)
    for table in (one, other):
        table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
        table.ingest()
    assert len(one.left()) == 2
    assert (one.retry().asked, one.rows(), other.rows()) == (1, {1: 1, 2: 2}, {2: 2})
    assert len(one.left()) == 1, "the other pipeline has not retried it"
    assert put_back([one.letters], other.storage, other.pipeline.name) == [], "they are no letters of its"
    assert (other.retry().retried, other.rows(), one.left()) == (1, {1: 1, 2: 2}, [])


def test_letters_of_a_former_place_are_retried_there(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("c", 2, 2))
    table.ingest()
    former = table.left()
    table.letters = open_storage(str(table.folder / "moved"))
    table.pipeline = replace(table.pipeline, dead_letters_url=table.letters.url)
    table.send(event("c", 3, 3, odd=True))
    table.ingest()
    Journal(table.storage, table.pipeline.name).keep_letters_place("closed://elsewhere/letters")  # it stops nothing
    assert (len(former), table.retry().retried, table.rows()) == (1, 2, {1: 1, 2: 2, 3: 3})
    assert (table.left(), list((table.folder / "moved").glob("*.parquet"))) == ([], [])


@pytest.mark.parametrize(
    "error", [SchemaGrown("more", {1: ["note"]}), ColumnsChanged("more")], ids=["grown", "changed"]
)
def test_a_table_that_is_opened_again_meanwhile_counts_each_letter_once(
    table: RetriedTable, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "LETTERS_MAX", 1)
    for number in (1, 2, 3):
        table.send(event("c", number, number, odd=True), (b"{}", b"odd, and no JSON"))
        table.ingest()
    assert table.retry(dry_run=True, raising=[None, error]).asked == 6
    outcome = table.retry(raising=[None, error])
    assert (outcome.asked, outcome.retried, sum(outcome.stay.values()), len(outcome.commits)) == (6, 3, 3, 3)
    assert (table.rows(), len(table.left())) == ({1: 1, 2: 2, 3: 3}, 3)


def test_a_letter_of_before_a_truncate_is_in_the_table_no_more(table: RetriedTable) -> None:
    table.send(event("c", 1, 1, odd=True), event("t", 0), event("c", 2, 2, odd=True), event("c", 3, 3))
    table.ingest()
    assert table.retry(empties=True).retried == 2
    assert table.rows() == {2: 2, 3: 3}
    assert [letter["offset"] for letter in table.left()] == [1], "a retry deletes no rows of others"


class TestKilled:
    """A retry that is killed, and rows that come before it is run again."""

    @staticmethod
    def prepared(folder: Path) -> RetriedTable:
        table = RetriedTable(folder)
        table.send(event("c", 1, 1), event("c", 2, 2, odd=True), event("c", 3, 3, odd=True), event("u", 1, 5, odd=True))
        table.ingest()
        table.send(event("d", 3), event("c", 4, 4, odd=True), (b'{"id": 9}', b"odd, and no JSON"))
        table.ingest()
        return table

    @pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("which", ["storage", "letters"])
    def test_at_any_change_loses_and_doubles_nothing(self, tmp_path: Path, which: str, after_effect: bool) -> None:
        for dies_at in range(100):
            table = self.prepared(tmp_path / str(dies_at))
            dying = CrashingStorage(getattr(table, which), dies_at, after_effect=after_effect)
            given: dict[str, Any] = {which: dying}
            try:
                table.retry(**given)
            except Crash:
                if dies_at % 2:
                    table.send(event("u", 2, 22), event("d", 4))
                    table.ingest()
            else:
                break
            table.retry()
            expected = {1: 5, 2: 22} if dies_at % 2 else {1: 5, 2: 2, 4: 4}
            assert table.rows() == expected, f"killed at change {dies_at}"
            assert [letter["value"] for letter in table.left()] == [b"odd, and no JSON"]
        assert dies_at > 1, "it was killed"

    @pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
    def test_letters_that_were_coming_back_come_back_once(self, tmp_path: Path, after_effect: bool) -> None:
        for dies_at in range(2):
            table = self.prepared(tmp_path / str(dies_at))
            (instant,) = table.retry().commits
            of_it = [info.path for info in table.storage.list(".hoodie/timeline") if instant in info.path]
            table.storage.delete_many(of_it)
            dying = CrashingStorage(table.letters, dies_at, after_effect=after_effect)
            with pytest.raises(Crash):
                put_back([dying], table.storage, table.pipeline.name)
            put_back([table.letters], table.storage, table.pipeline.name)
            assert len(table.left()) == 5
            assert (table.retry().retried, table.rows()) == (4, {1: 5, 2: 2, 4: 4})

    def test_between_the_two_changes_of_a_file_the_letter_is_seen_in_the_dead_letter_table(
        self, tmp_path: Path
    ) -> None:
        table = self.prepared(tmp_path)
        with pytest.raises(Crash):
            table.retry(letters=CrashingStorage(table.letters, 1))
        assert len(table.left()) == 5
        table.retry()
        assert len(table.left()) == 1


BUCKETS = TableDefinition("orders", ("id",), (), None, buckets=2)
STATE = TableDefinition("orders", ("id",), (), None, state=StateRules(64 * 1024**2))
WHOLE = TableDefinition("orders", ("id",), (), None, state=StateRules(64 * 1024**2, is_global=True))


@pytest.mark.parametrize(
    ("seed", "definition"), [(1, BUCKETS), (2, BUCKETS), (3, BUCKETS), (4, STATE), (5, STATE), (6, WHOLE)]
)
def test_random_events_and_retries_end_as_the_source(
    tmp_path: Path, seed: int, definition: TableDefinition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retries of some letters, of few files at a time, killed ones too, between micro-batches."""
    draw = random.Random(seed)
    monkeypatch.setattr(letters, "LETTERS_MAX", draw.choice([1, 3, 100_000]))
    table, source = RetriedTable(tmp_path, definition=definition), dict[int, int]()
    for step in range(15):
        for _ in range(draw.randrange(6)):
            number, odd = draw.randrange(5), draw.random() < 0.4
            if number in source and draw.random() < 0.4:
                del source[number]
                table.send(event("d", number, odd=odd), (event("d", number)[0], None))
            else:
                source[number] = step * 100 + number
                table.send(event("u", number, source[number], odd=odd))
        table.ingest()
        if draw.random() < 0.2:
            instants = sorted({letter["instant"] for letter in table.left()}) or [""]
            table.retry(Asked(since=draw.choice(instants)))
        elif draw.random() < 0.2:
            try:
                table.retry(storage=CrashingStorage(table.storage, draw.randrange(30)))
            except Crash:
                continue
    table.retry()
    assert (table.rows(), table.left()) == (source, [])
