"""The Kafka demo's made-up orders, and the comparison that ends it."""

import json

from bucketingest.cli.demo.orders import Orders, compare


def test_what_must_be_in_the_table_follows_from_the_messages() -> None:
    orders = Orders()
    table: dict[str, tuple[float, int]] = {}
    kinds = set()
    for key, value in orders.messages(5000):
        row = json.loads(value)
        assert key.decode() == row["order_id"]
        kinds.add((row["order_id"] in table, row["deleted"]))
        table.pop(row["order_id"], None)
        if not row["deleted"]:
            table[row["order_id"]] = (row["amount"], row["version"])
    assert orders.rows == table
    assert orders.made == 5000
    assert kinds >= {(False, False), (True, False), (True, True)}, "inserts, updates and deletes"


def test_an_order_never_changes_its_region() -> None:
    regions: dict[str, str] = {}
    for _, value in Orders().messages(2000):
        row = json.loads(value)
        assert regions.setdefault(row["order_id"], row["region"]) == row["region"]


EXPECTED = {"a": (1.0, 1), "b": (2.0, 2)}


def test_equal_rows_are_equal() -> None:
    assert compare(EXPECTED, [("b", 2.0, 2), ("a", 1.0, 1)]).equal


def test_lost_doubled_stale_and_surplus_rows_are_found() -> None:
    assert compare(EXPECTED, [("a", 1.0, 1)]).missing == 1
    assert not compare(EXPECTED, [("a", 1.0, 1), ("b", 2.0, 2), ("b", 2.0, 2)]).equal
    assert compare(EXPECTED, [("a", 1.0, 0), ("b", 2.0, 2)]).different == 1
    assert compare(EXPECTED, [*((k, *v) for k, v in EXPECTED.items()), ("c", 3.0, 3)]).unexpected == 1
