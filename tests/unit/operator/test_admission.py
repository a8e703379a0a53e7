"""What the webhook refuses: changed specs only, in the words of `validate` and of the status."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from bucketingest.cli.connect.offline import offline_problems
from bucketingest.spec.errors import SpecError, format_problem
from bucketingest.spec.reading.load import load_file
from bucketingest_operator.guards.admission import Admission
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observe.inventory import Inventory
from support.operator import hostile
from support.operator.observations import bucket_ingest


def body(name: str = "orders", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ingest", "uid": f"uid-{name}", "resourceVersion": "1", "generation": 1}
    metadata["creationTimestamp"] = "2026-11-21T11:00:00Z"
    kind = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest"}
    return {**kind, "metadata": metadata, "spec": bucket_ingest().spec.to_document() | spec}


@pytest.fixture
def inventory() -> Inventory:
    return Inventory(lambda _uid: None, lambda _uid: None)


def judge(inventory: Inventory, new: Any, old: Any = None, **settings: Any) -> str | None:
    return Admission(inventory, JobSettings(**settings)).why_refused(new, old)


WRONG: dict[str, dict[str, Any]] = {
    "a wrong option": {"commit": {"interval": "0s"}},
    "SQL that is none": {"transform": {"sql": "SELEKT value FROM source"}},
    "a bracket that stays open": {"transform": {"sql": "SELECT (value FROM source"}},
    "a condition that stays open": {
        "table": {"path": "s3://lake/orders", "recordKey": ["value"], "deleteWhen": "value = 'a"}
    },
    "a schema that is none": {
        "source": {"kafka": {"bootstrapServers": "k:1", "topics": ["t"]}},
        "format": {"type": "json", "schema": ""},
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_it_says_what_validate_says(name: str, inventory: Inventory, tmp_path: Path) -> None:
    wrong = body(**WRONG[name])
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump({**wrong, "metadata": {"name": "orders", "namespace": "ingest"}}))
    try:
        problems = offline_problems(load_file(file))
    except SpecError as error:
        problems = list(error.problems)
    said = judge(inventory, wrong)
    assert said is not None
    for each in problems:
        assert format_problem("", each).removeprefix(f"{each.line}: ") in said


def test_what_is_right_is_taken(inventory: Inventory) -> None:
    assert judge(inventory, body()) is None


def test_a_spec_that_stays_is_not_judged_so_that_status_finalizers_and_deletion_go_on(inventory: Inventory) -> None:
    wrong = body(transform={"sql": "SELEKT"})
    labelled = copy.deepcopy(wrong)
    labelled["metadata"]["finalizers"] = []
    assert judge(inventory, labelled, wrong) is None
    assert judge(inventory, labelled, body()) is not None
    labelled["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    assert judge(inventory, labelled, body()) is None


def test_a_table_that_another_one_of_the_namespace_has_is_named(inventory: Inventory) -> None:
    inventory.take(body("first"))
    assert judge(inventory, body()) == "spec.table.path: The table belongs to ingest/first."
    assert judge(inventory, body("first")) is None
    assert judge(inventory, body(suspend=True), body()) is None, "it had the table already"
    elsewhere = body()
    elsewhere["metadata"]["namespace"] = "other"
    assert judge(inventory, elsewhere) is None, "between namespaces the storage decides, and nothing is told"


def test_one_that_rests_has_no_table(inventory: Inventory) -> None:
    inventory.take(body("first", suspend=True))
    assert judge(inventory, body()) is None


def test_what_an_administrator_forbids_is_refused(inventory: Inventory) -> None:
    said = judge(inventory, body(), table_owners={"s3://lake": ["other"]})
    assert said is not None
    assert "job.tableOwners" in said


FORBIDDEN = {"table_owners": {"s3://lake": ["other"]}}


@pytest.mark.parametrize("change", [{"suspend": True}, {"errors": {"policy": "fail"}}])
def test_what_was_wrong_before_keeps_nobody_from_suspending_and_changing_other_things(
    change: dict[str, Any], inventory: Inventory
) -> None:
    for wrong, settings in ((body(**WRONG["SQL that is none"]), {}), (body(), FORBIDDEN)):
        assert judge(inventory, wrong, **settings) is not None
        changed = copy.deepcopy(wrong)
        changed["spec"] |= change
        assert judge(inventory, changed, wrong, **settings) is None


def test_what_was_wrong_before_lets_nothing_else_become_wrong(inventory: Inventory) -> None:
    inventory.take(body("first"))
    wrong = body(**WRONG["SQL that is none"], table={"path": "s3://lake/other", "recordKey": ["value"]})
    worse = body(**WRONG["SQL that is none"])
    assert judge(inventory, worse, wrong) == "spec.table.path: The table belongs to ingest/first."
    still = body(transform={"sql": "SELEKT other FROM source"}, suspend=True)
    assert judge(inventory, still, body()) is not None


def test_a_table_whose_owner_is_being_deleted_can_be_taken_over(inventory: Inventory) -> None:
    leaving = body("first")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    inventory.take(leaving)
    assert judge(inventory, body()) is None


@pytest.mark.parametrize("name", hostile.SPECS)
def test_no_spec_of_a_tenant_ends_it_or_fills_a_terminal(name: str, inventory: Inventory) -> None:
    said = judge(inventory, body(**hostile.SPECS[name])) or ""
    assert len(said) < 20_000
    assert "\x1b" not in said


def test_what_cannot_be_judged_is_taken(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_body: object) -> list[str]:
        raise RecursionError

    monkeypatch.setattr(inventory, "taken", broken)
    assert judge(inventory, body()) is None
