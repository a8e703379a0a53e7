"""Where transactions end in the topics that Debezium wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bucketingest.decode.debezium.transactions import Run, count_of, end_of_last, is_unmarked, joined, run_of
from support.decoding.debezium_streams import Stream, records_of


def events_of(name: Stream) -> list[Any]:
    return [None if value is None else json.loads(value) for _, value in records_of(name)]


def counts_of(name: Stream) -> dict[str, dict[str, int]]:
    return {id_: counts for event in events_of(name) for id_, counts in count_of(event).items()}


def ends_of(events: list[Any], counts: dict[str, dict[str, int]], *, begin: int | None = 0) -> list[int]:
    """Where a micro-batch ends that could have each of the events as its last."""
    found = set[int]()
    for until in range(1, len(events) + 1):
        runs = [run for at, event in enumerate(events[:until]) if (run := run_of(at, 0, event)) is not None]
        if (end := end_of_last(joined(runs), begin, until, counts)) is not None:
            found.add(end)
    return sorted(found)


@pytest.mark.parametrize(
    ("name", "transactions", "ends"),
    [
        # 2 in the snapshot; then u | d, tombstone, c | d, tombstone | c, c, u | c | c | c
        ("postgres.orders", "postgres.transaction", [1, 2, 3, 6, 7, 8, 11, 12, 13, 14]),
        # the truncate at 14 has a BEGIN and no END
        ("mariadb.orders", "mariadb.transaction", [1, 2, 3, 6, 7, 8, 12, 13, 14, 15, 16]),
        # t | c | five inserts | u | u | d, tombstone | five rows of an incremental snapshot | u | t | c
        ("postgres.toast", "postgres.transaction", [1, 2, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]),
        ("postgres.without-key", "postgres.transaction", [2, 4, 5, 6]),
    ],
)
def test_transactions_end_where_their_numbers_say(name: Stream, transactions: Stream, ends: list[int]) -> None:
    assert ends_of(events_of(name), counts_of(transactions)) == ends


@pytest.mark.parametrize("name", ["postgres.orders", "mariadb.orders"])
def test_without_an_end_nothing_has_ended_but_the_snapshot(name: Stream) -> None:
    ends = ends_of(events_of(name), {})
    assert ends == ([1, 2] if name == "postgres.orders" else [1, 2, 15]), "and MariaDB's truncate"


def test_the_events_of_an_id_of_postgresql_have_others_behind_the_colon() -> None:
    ids = {each["transaction"]["id"] for each in events_of("postgres.orders")[8:11]}
    assert len(ids) == 3
    (run,) = joined([run for at in (8, 9, 10) if (run := run_of(at, 5, events_of("postgres.orders")[at])) is not None])
    assert run == Run(8, 5, "747", ("shop.inv.orders", "inv.orders", "orders"), 3)


def test_the_other_databases_have_the_whole_id() -> None:
    event: dict[str, Any] = {
        "op": "c",
        "source": {"connector": "sqlserver", "db": "d", "schema": "dbo", "table": "t"},
        "transaction": {"id": "00000025:00000d08:0025", "total_order": 7, "data_collection_order": 2},
    }
    run = run_of(0, 0, {"schema": {}, "payload": event})
    id_ = event["transaction"]["id"]
    assert run is not None
    assert run.id == id_

    def end(**counts: int) -> dict[str, dict[str, int]]:
        tables = [{"data_collection": name.replace("_", "."), "event_count": count} for name, count in counts.items()]
        said = {"status": "END", "id": id_, "event_count": 9, "data_collections": tables}
        return count_of({"schema": {}, "payload": said})

    assert run.has_ended(end(d_dbo_t=2, d_dbo_u=7))
    assert not run.has_ended(end(d_dbo_t=3))
    assert not run.has_ended(end(d_dbo_u=2)), "that is another table"
    assert not run.has_ended(count_of({"status": "BEGIN", "id": run.id, "event_count": None})), "it has begun"


def test_events_that_debezium_sends_again_after_a_crash_are_waited_for() -> None:
    counts = {"1": {"t": 3}}
    again = [Run(0, 0, "1", ("t",), 1), Run(1, 0, "1", ("t",), 3), Run(2, 0, "1", ("t",), 2)]
    assert end_of_last(joined(again), 0, 3, counts) is None
    assert end_of_last(joined([*again, Run(3, 0, "1", ("t",), 3)]), 0, 4, counts) == 4


def test_what_is_no_event_says_nothing() -> None:
    odd_ones: list[object] = [None, 1, [], {}, {"op": None}, {"status": "END"}, {"status": "END", "id": 1}]
    for odd in odd_ones:
        assert run_of(0, 0, odd) is None
        assert count_of(odd) == {}
        assert not is_unmarked(odd)
    torn = {"status": "END", "id": "1", "data_collections": [{}, 3, {"data_collection": "t", "event_count": 1}]}
    assert count_of(torn) == {"1": {"t": 1}}
    assert run_of(0, 0, {"op": "c", "source": 3, "transaction": {"id": None}}) == Run(0, 0, "None")


def test_a_change_that_names_no_transaction_is_one() -> None:
    change = {"op": "c", "source": {"connector": "postgresql", "snapshot": "false"}, "transaction": None}
    assert run_of(4, 0, change) == Run(4, 0, None)
    assert is_unmarked(change)
    assert not any(map(is_unmarked, events_of("postgres.orders")))
