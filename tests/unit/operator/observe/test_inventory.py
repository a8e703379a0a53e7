"""The known BucketIngests, and which of them want the same table."""

from __future__ import annotations

from typing import Any

import pytest

from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.resource_reading import read_wanted
from support.operator.observations import bucket_ingest


def body(uid: str, version: int = 1, path: str = "s3://lake/orders") -> dict[str, Any]:
    spec = bucket_ingest({"table": {"path": path, "recordKey": ["value"]}}).spec.to_document()
    return {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {
            "uid": uid,
            "name": f"orders-{uid}",
            "namespace": "ingest",
            "creationTimestamp": "2026-11-21T11:00:00Z",
            "resourceVersion": str(version),
            "generation": version,
        },
        "spec": spec,
    }


class Known:
    """An inventory that records its notifications."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.removed: list[str] = []
        self.inventory = Inventory(self.changed.append, self.removed.append)

    def reported(self) -> list[str]:
        reported = sorted(self.changed)
        self.changed.clear()
        return reported

    def rivals(self, uid: str) -> list[str]:
        return sorted(each.uid for each in self.inventory.rivals(uid))


def test_only_what_is_new_is_reported() -> None:
    known = Known()
    known.inventory.take(body("a"))
    assert known.reported() == ["a"]
    known.inventory.take(body("a"))
    assert known.reported() == []
    known.inventory.take(body("a", 2))
    assert known.reported() == ["a"]


def test_an_older_version_is_ignored() -> None:
    known = Known()
    known.inventory.take(body("a", 10))
    known.inventory.take(body("a", 9))
    found = known.inventory.get("a")
    assert found is not None
    assert found.version == "10"


def test_restored_data_are_believed_if_they_were_read_later() -> None:
    known = Known()
    known.inventory.take(body("a", 10))
    known.reported()
    known.inventory.take(body("a", 3), instead_of="10")
    found = known.inventory.get("a")
    assert found is not None
    assert (found.version, known.reported()) == ("3", ["a"])
    known.inventory.take(body("a", 4))
    # Read before the event that has come in the meantime.
    known.inventory.take(body("a", 2), instead_of="3")
    found = known.inventory.get("a")
    assert found is not None
    assert found.version == "4"


def test_our_own_write_is_no_reason_for_a_pass() -> None:
    known = Known()
    known.inventory.take(body("a"))
    known.reported()
    known.inventory.take(body("a", 2), quiet=True)
    assert known.reported() == []


def test_an_event_of_our_own_write_that_comes_before_its_answer_is_no_reason_either() -> None:
    known = Known()
    known.inventory.take(body("a"))
    known.reported()
    with known.inventory.holding("a"):
        known.inventory.take(body("a", 2))
        known.inventory.take(body("a", 2), quiet=True)
    assert known.reported() == []
    with known.inventory.holding("a"):
        known.inventory.take(body("a", 3), quiet=True)
        known.inventory.take(body("a", 4))
    assert known.reported() == ["a"]
    found = known.inventory.get("a")
    assert found is not None
    assert found.version == "4"


def test_a_deletion_is_not_delayed() -> None:
    known = Known()
    known.inventory.take(body("a"))
    with known.inventory.holding("a"):
        known.inventory.take(body("a", 2))
        known.inventory.forget("a")
    assert known.inventory.get("a") is None


def test_resources_of_one_table_know_of_each_other_however_it_is_spelled() -> None:
    known = Known()
    known.inventory.take(body("a"))
    known.inventory.take(body("b", path="s3a://lake/orders"))
    known.inventory.take(body("c", path="s3://lake/others"))
    assert known.rivals("a") == ["b"]
    assert known.rivals("b") == ["a"]
    assert known.rivals("c") == []
    assert known.rivals("unknown") == []


def test_a_resource_of_another_namespace_is_no_rival_and_administrators_are_told_of_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = Known()
    known.inventory.take(body("a"))
    other = body("b")
    other["metadata"]["namespace"] = "other"
    known.inventory.take(other)
    assert known.rivals("a") == []
    assert known.rivals("b") == []
    (record,) = caplog.records
    assert (vars(record)["namespace"], vars(record)["others"]) == ("other", ["ingest/orders-a"])


def test_rivals_for_a_table_are_notified_when_another_comes_moves_or_goes() -> None:
    known = Known()
    known.inventory.take(body("a"))
    known.reported()
    known.inventory.take(body("b"))
    assert known.reported() == ["a", "b"]
    known.inventory.take(body("b", 2, path="s3://lake/others"), quiet=True)
    assert known.reported() == ["a"]
    known.inventory.take(body("b", 3), quiet=True)
    known.reported()
    known.inventory.forget("b")
    assert known.reported() == ["a"]
    assert known.removed == ["b"]
    assert known.rivals("a") == []


def test_a_deleted_resource_does_not_come_back_with_a_late_answer() -> None:
    known = Known()
    known.inventory.take(body("a"))
    known.inventory.take(body("b"))
    known.inventory.forget("a")
    known.reported()
    known.inventory.take(body("a", 2), quiet=True)
    assert known.inventory.get("a") is None
    assert known.rivals("b") == []
    assert known.reported() == []


def test_forgetting_twice_is_forgetting_once() -> None:
    known = Known()
    known.inventory.take(body("a"))
    known.inventory.forget("a")
    known.inventory.forget("a")
    assert known.removed == ["a"]
    assert len(known.inventory) == 0


def test_what_specs_have_in_common_is_kept_once() -> None:
    known = Known()
    bodies = [body(uid, path=f"s3://lake/{uid}") for uid in ("a", "b", "c")]
    bodies[1]["spec"] |= {"health": {"maxCommitLag": "7m"}}
    specs = []
    for each in bodies:
        known.inventory.take(each)
        found = known.inventory.get(each["metadata"]["uid"])
        assert found is not None
        assert found.wanted is not None
        assert found.wanted == read_wanted(each)[0], "nothing of it is another's"
        specs.append(found.wanted.spec)
    first, other, last = specs
    assert first.services is other.services is last.services
    assert first.table is not last.table
    assert first.table.lock is other.table.lock is last.table.lock
    assert first.health is not other.health
