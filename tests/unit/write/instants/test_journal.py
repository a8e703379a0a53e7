"""The objects by which attempts agree: each created once, and a decision is final."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.errors import InvalidTable
from bucketingest.storage import Storage, open_storage
from bucketingest.write.errors import FencedOut, NewerFormat, WriteError
from bucketingest.write.instants.journal import KEPT_EPOCHS, KEPT_FOR, KEPT_INSTANTS, ROOT, Journal
from bucketingest.write.instants.records import (
    FORMAT_VERSION,
    AbortDecision,
    CommitDecision,
    Decision,
    Intent,
    LedgerEntry,
)
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.pipeline_names import directory_name, pipeline_of, pipelines
from bucketingest.write.rows.write_status import WriteStatus
from support.storage.crashing_storage import Crash, CrashingStorage

INSTANT = "20261121080000000"
COMMIT = CommitDecision("20261121080001000", b"\x00binary\n\xff\n")
RANGE = SourceRange("kafka", '{"t":{"0":0}}', '{"t":{"0":5}}', "q", 0)
INTENT = Intent(RANGE, "file ids")


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}")


@pytest.fixture
def journal(storage: Storage) -> Journal:
    return Journal(storage, "shop/orders")


def test_each_attempt_gets_a_higher_epoch(journal: Journal) -> None:
    assert [journal.claim_epoch("host") for _ in range(3)] == [1, 2, 3]


def test_attempts_that_claim_concurrently_get_different_epochs(storage: Storage) -> None:
    together = Barrier(4)

    def claim(number: int) -> int:
        together.wait()
        return Journal(storage, "orders").claim_epoch(f"host-{number}")

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(claim, range(4))) == [1, 2, 3, 4]


def test_the_older_of_two_attempts_is_fenced_out_and_learns_the_claimant(storage: Storage) -> None:
    journal = Journal(storage, "orders")
    older, newer = journal.claim_epoch("host-a (process 1)"), journal.claim_epoch("host-b (process 2)")
    journal.check_epoch(newer)
    with pytest.raises(FencedOut) as fenced:
        journal.check_epoch(older)
    assert str(fenced.value) == (
        f"{storage.url}: host-b (process 2) claimed the pipeline after this attempt (epoch 2 after 1): "
        "this attempt stops and commits nothing; if both should run, give them different names and tables"
    )


def test_only_the_newest_epochs_are_kept(storage: Storage, journal: Journal) -> None:
    for _ in range(KEPT_EPOCHS + 5):
        newest = journal.claim_epoch("host")
    names = [info.path.rpartition("/")[2] for info in storage.list(ROOT)]
    assert sorted(map(int, names)) == list(range(newest - KEPT_EPOCHS + 1, newest + 1))


def test_pipelines_do_not_see_each_other(storage: Storage) -> None:
    orders, returns = Journal(storage, "shop/orders"), Journal(storage, "shop/returns")
    orders.put_intent(INSTANT, 1, INTENT)
    assert (orders.claim_epoch("a"), returns.claim_epoch("b")) == (1, 1)
    assert (orders.instants(), returns.instants()) == ([INSTANT], [])


@pytest.mark.parametrize("pipeline", ["shop/orders", "orders", "lease", "leases", "services"])
def test_a_pipelines_name_is_one_directory_that_gives_the_name_again(pipeline: str) -> None:
    directory = directory_name(pipeline)
    assert "/" not in directory
    assert directory not in ("lease", "services"), "there lie the objects of the table's lease and its services"
    assert pipeline_of(directory) == pipeline


def test_the_pipelines_of_a_table_are_listed_by_name() -> None:
    storage = open_storage(f"memory://{uuid.uuid4()}")
    for pipeline in ("shop/orders", "lease", "services"):
        Journal(storage, pipeline).claim_epoch("a")
    storage.create(f"{ROOT}/lease/000000000001", b"the table's lease")
    storage.create(f"{ROOT}/services/archive/000000000001", b"the table's services")
    assert pipelines(storage) == ("lease", "services", "shop/orders")


def test_an_intent_is_read_back(journal: Journal) -> None:
    assert journal.intent(INSTANT, 1) is None
    journal.put_intent(INSTANT, 1, INTENT)
    assert journal.intent(INSTANT, 1) == INTENT


def test_of_two_attempts_that_chose_one_time_only_one_has_it_though_their_rows_are_the_same(
    storage: Storage,
) -> None:
    claims = [Journal(storage, "shop/orders").claim(INSTANT, INTENT) for _ in range(2)]
    assert claims == [True, False]


def test_an_intent_may_be_repeated_but_not_with_other_rows_or_file_names(journal: Journal) -> None:
    journal.put_intent(INSTANT, 1, INTENT)
    journal.put_intent(INSTANT, 1, Intent(SourceRange("kafka", RANGE.start, RANGE.end, "other", 7), "file ids"))
    longer = SourceRange("kafka", RANGE.start, '{"t":{"0":6}}', "q", 0)
    with pytest.raises(WriteError, match=f"instant {INSTANT}, micro-batch 1 was started with other rows: .*, now "):
        journal.put_intent(INSTANT, 1, Intent(longer, "file ids"))
    with pytest.raises(WriteError, match="was started with other rows"):
        journal.put_intent(INSTANT, 1, Intent(RANGE, "other file ids"))
    assert journal.intent(INSTANT, 1) == INTENT


def test_a_ledger_entry_is_read_back_and_the_second_writer_gets_the_first(
    journal: Journal,
) -> None:
    assert journal.ledger(INSTANT, 1) is None
    entry = LedgerEntry(RANGE, (WriteStatus(0, "eu", 1, "id", "name", 10, 1, 3, 2, 1), WriteStatus(1, sample="ä")))
    assert journal.put_ledger(INSTANT, 1, entry) == entry
    assert journal.put_ledger(INSTANT, 1, LedgerEntry(RANGE, ())) == entry
    assert journal.ledger(INSTANT, 1) == entry


@pytest.mark.parametrize(
    "decision", [COMMIT, AbortDecision("another writer\nrolled it back, ä")], ids=["commit", "abort"]
)
def test_a_decision_is_read_back_byte_for_byte(journal: Journal, decision: Decision) -> None:
    assert journal.decision(INSTANT) is None
    assert journal.decide(INSTANT, decision) == decision
    assert journal.decision(INSTANT) == decision


def test_the_first_decision_is_the_answer_for_every_attempt(journal: Journal) -> None:
    assert journal.decide(INSTANT, AbortDecision("first")) == AbortDecision("first")
    assert journal.decide(INSTANT, COMMIT) == AbortDecision("first")
    assert journal.decide(INSTANT, AbortDecision("second")) == AbortDecision("first")


def test_of_concurrent_commit_and_abort_exactly_one_is_decided(storage: Storage) -> None:
    wishes: list[Decision] = [COMMIT, AbortDecision("a"), CommitDecision("20261121080002000", b"x"), AbortDecision("b")]
    together = Barrier(len(wishes))

    def decide(round_and_wish: tuple[str, Decision]) -> Decision:
        instant, wish = round_and_wish
        together.wait()
        return Journal(storage, "orders").decide(instant, wish)

    with ThreadPoolExecutor(len(wishes)) as pool:
        for number in range(20):
            answers = list(pool.map(decide, [(str(number), wish) for wish in wishes]))
            assert len(set(answers)) == 1
            assert answers[0] in wishes


@given(st.text(max_size=20), st.binary(max_size=40))
def test_no_content_of_a_decision_is_taken_for_its_head(text: str, content: bytes) -> None:
    journal = Journal(open_storage(f"memory://{uuid.uuid4()}"), "orders")
    assert journal.decide("1", CommitDecision("2", content)) == journal.decision("1")
    assert journal.decide("2", AbortDecision(text)) == journal.decision("2")


def settle_open(journal: Journal) -> None:
    """Every record of an instant: intent, ledger entry, closing, decision."""
    journal.put_intent(INSTANT, 1, INTENT)
    journal.put_ledger(INSTANT, 1, LedgerEntry(RANGE, (WriteStatus(0, "eu", 1, "id", "name", 10, 1, 3, 2, 1),)))
    journal.close(INSTANT, 2)
    journal.decide(INSTANT, COMMIT)


RECORDS: dict[str, Callable[[Journal], object]] = {
    "intent/1": lambda journal: journal.intent(INSTANT, 1),
    "ledger/1": lambda journal: journal.ledger(INSTANT, 1),
    "intent/2": lambda journal: journal.close(INSTANT, 2),
    "decision": lambda journal: journal.decision(INSTANT),
}


def change(storage: Storage, name: str, changes: dict[str, object]) -> str:
    """Another release's record in place of ours; its path."""
    path = f"{ROOT}/shop~orders/instants/{INSTANT}/{name}"
    line, newline, rest = storage.get(path).partition(b"\n")
    storage.put(path, json.dumps(json.loads(line) | changes).encode() + newline + rest)
    return path


@pytest.mark.parametrize("name", RECORDS)
def test_fields_of_a_newer_release_are_ignored(storage: Storage, journal: Journal, name: str) -> None:
    settle_open(journal)
    before = RECORDS[name](journal)
    change(storage, name, {"new": 1})
    assert RECORDS[name](journal) == before


def test_a_field_of_a_newer_release_in_a_write_status_is_ignored(storage: Storage, journal: Journal) -> None:
    settle_open(journal)
    before = journal.ledger(INSTANT, 1)
    content = json.loads(storage.get(f"{ROOT}/shop~orders/instants/{INSTANT}/ledger/1"))
    change(storage, "ledger/1", {"statuses": [each | {"new": 1} for each in content["statuses"]]})
    assert journal.ledger(INSTANT, 1) == before


@pytest.mark.parametrize("name", RECORDS)
def test_a_newer_format_is_refused_with_its_object(storage: Storage, journal: Journal, name: str) -> None:
    settle_open(journal)
    path = change(storage, name, {"version": FORMAT_VERSION + 1})
    with pytest.raises(NewerFormat, match=f"{path} was written by a newer release of bucketingest"):
        RECORDS[name](journal)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 1}', b'{"version": 1, "decision": "commit"}\nshort'])
@pytest.mark.parametrize("name", ["intent/1", "ledger/1", "decision"])
def test_a_damaged_record_is_named(storage: Storage, journal: Journal, name: str, content: bytes) -> None:
    settle_open(journal)
    path = change(storage, name, {})
    storage.put(path, content)
    with pytest.raises(InvalidTable, match=f"{path} cannot be read"):
        RECORDS[name](journal)


def test_done_is_remembered(journal: Journal) -> None:
    assert not journal.is_done(INSTANT)
    journal.mark_done(INSTANT)
    journal.mark_done(INSTANT)
    assert journal.is_done(INSTANT)


def settle(journal: Journal, instant: str) -> None:
    journal.put_intent(instant, 1, INTENT)
    journal.put_ledger(instant, 1, LedgerEntry(RANGE, ()))
    journal.decide(instant, COMMIT)
    journal.mark_done(instant)


def test_a_forgotten_instant_leaves_nothing_and_others_stay(storage: Storage, journal: Journal) -> None:
    settle(journal, INSTANT)
    settle(journal, "20261121080000001")
    journal.forget([INSTANT])
    assert journal.instants() == ["20261121080000001"]
    assert not any(INSTANT + "/" in info.path for info in storage.list(ROOT))
    assert journal.is_done("20261121080000001")


def test_instants_of_a_table_that_is_ahead_of_the_clock_are_forgotten_too(storage: Storage, journal: Journal) -> None:
    instants = [f"20991121080000{number:03d}" for number in range(KEPT_INSTANTS + 3)]
    for instant in instants:
        settle(journal, instant)
    done = storage.head(f"{ROOT}/shop~orders/instants/{instants[0]}/done").modified
    assert journal.forgettable(done + KEPT_FOR - timedelta(seconds=1)) == {}
    assert list(journal.forgettable(done + KEPT_FOR + timedelta(minutes=1))) == instants[:3]


def test_an_overtaken_instant_is_not_forgotten_before_its_rows_have_come_again(journal: Journal) -> None:
    """An open instant that is completed after the mark does not bring them: it began where the last one ended."""
    instants = [f"20251121080000{number:03d}" for number in range(KEPT_INSTANTS + 1)]
    for instant in instants[:-1]:
        settle(journal, instant)
    journal.put_intent(instants[-1], 1, INTENT)
    journal.mark_overtaken(instants[0], "a test")
    settle(journal, instants[-1])
    later = datetime.now(UTC) + 2 * KEPT_FOR
    assert journal.forgettable(later) == {}
    settle(journal, "20251121080001000")
    assert list(journal.forgettable(later)) == instants[:2]


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("dies_at", range(4))
def test_forgetting_that_is_interrupted_leaves_nothing_to_be_done(dies_at: int, after_effect: bool) -> None:
    storage = open_storage(f"memory://{uuid.uuid4()}")
    settle(Journal(storage, "orders"), INSTANT)
    with pytest.raises(Crash):
        Journal(CrashingStorage(storage, dies_at, after_effect=after_effect), "orders").forget([INSTANT])
    journal = Journal(storage, "orders")
    assert all(journal.is_done(instant) for instant in journal.instants())
    journal.forget(journal.instants())
    assert journal.instants() == []
