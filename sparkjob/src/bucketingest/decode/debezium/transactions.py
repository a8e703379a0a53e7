"""Where transactions of the database end in a topic of Debezium's, so that a commit shows none of them in part. Pure.

Debezium writes transactions whole and one after the other, as they were committed, and counts the events of each by
table: `transaction.data_collection_order` of an event, and `event_count` in the END on the transaction topic (its class
TransactionMonitor). So in a topic with one partition a transaction has ended behind the event that has the number which
its END says. Names of fields as Debezium's documentation has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

Counts = Mapping[str, Mapping[str, int]]
"""What the ENDs say: transaction → table → number of its events."""
_INCREMENTAL: Final = "incremental"
_COMMITS_AT_ONCE: Final = ("mysql", "mariadb")
"""There a TRUNCATE is a transaction of its own, and none that has an END."""
_POSTGRESQL: Final = "postgresql"


@dataclass(frozen=True, slots=True)
class Run:
    """Successive events of one transaction; with an `id` of None, of none: each of them is one of its own."""

    offset: int
    """Of its first event."""
    timestamp: int
    """Of that message, ms."""
    id: str | None
    tables: tuple[str, ...] = ()
    """What an END may call the table."""
    order: int = 0
    """The number of its last event among those of the table."""

    def has_ended(self, counts: Counts) -> bool:
        """Whether the last event is the last one of the transaction."""
        if self.id is None:
            return True
        said = counts.get(self.id, {})
        return self.order in [said[table] for table in self.tables if table in said]


def joined(runs: Iterable[Run]) -> list[Run]:
    """The runs of events in their order."""
    found: list[Run] = []
    for run in runs:
        if found and found[-1].id == run.id:
            found[-1] = replace(found[-1], order=run.order, tables=run.tables)
        else:
            found.append(run)
    return found


def end_of_last(runs: Sequence[Run], begin: int | None, until: int, counts: Counts) -> int | None:
    """The last offset up to `until` at which no transaction is open; None if none is known.

    `runs`: of the messages before `until`. `begin`: where the first of these is, if no transaction is open there. What
    belongs to no transaction, such as a tombstone, or a row of an incremental snapshot, may be in the middle of one: it
    goes with what is before it.
    """
    behind = until
    for run in reversed(runs):
        if run.has_ended(counts):
            return behind
        behind = run.offset
    return None if begin is None or behind <= begin else behind


def run_of(offset: int, timestamp: int, message: object) -> Run | None:
    """What a change event says of its transaction; None if nothing begins or ends with the message."""
    event = _payload(message)
    if not isinstance(event, dict) or not isinstance(event.get("op"), str):
        return None
    source, said = event.get("source"), event.get("transaction")
    source = source if isinstance(source, dict) else {}
    connector = source.get("connector")
    names = [name for part in ("db", "schema", "table") if isinstance(name := source.get(part), str)]
    tables = tuple(".".join(names[at:]) for at in range(len(names)))
    if event["op"] == "t" and connector in _COMMITS_AT_ONCE:
        return Run(offset, timestamp, None, tables)
    if not isinstance(said, dict):
        return None if source.get("snapshot") == _INCREMENTAL else Run(offset, timestamp, None, tables)
    id_, order = str(said.get("id")), said.get("data_collection_order")
    return Run(
        offset,
        timestamp,
        of_postgresql(id_) if connector == _POSTGRESQL else id_,
        tables,
        order if isinstance(order, int) else 0,
    )


def is_unmarked(message: object) -> bool:
    """Whether it is a change outside a snapshot that names no transaction: Debezium was not told to."""
    event = _payload(message)
    return isinstance(event, dict) and event.get("op") in {"c", "u", "d"} and event.get("transaction") is None


def is_mark(message: object) -> bool:
    """Whether it is a message of the transaction topic: a BEGIN or an END."""
    said = _payload(message)
    return isinstance(said, dict) and said.get("status") in {"BEGIN", "END"} and isinstance(said.get("id"), str)


def count_of(message: object) -> dict[str, dict[str, int]]:
    """What an END says, under each name that events may have for the transaction; nothing of other messages."""
    said = _payload(message)
    if not isinstance(said, dict) or said.get("status") != "END" or not isinstance(said.get("id"), str):
        return {}
    tables: Any = said.get("data_collections")
    counts = {
        each["data_collection"]: each["event_count"]
        for each in (tables if isinstance(tables, list) else ())
        if isinstance(each, dict) and each.keys() >= {"data_collection", "event_count"}
    }
    return {of_postgresql(said["id"]): counts, said["id"]: counts}


def of_postgresql(id_: str) -> str:
    """What its names have in common: its events, BEGIN and END have txid:lsn, each with an lsn of its own."""
    return id_.partition(":")[0]


def _payload(message: object) -> object:
    return message["payload"] if isinstance(message, dict) and message.keys() == {"schema", "payload"} else message
