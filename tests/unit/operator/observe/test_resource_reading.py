"""Reading a BucketIngest's JSON, also with invalid content."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Status
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import Change, change_since
from bucketingest_operator.observe.resource_reading import read_resource, table_of
from support.operator.observations import UID, attempt, bucket_ingest, input_of, status_with
from support.operator.plans import kinds
from support.operator.probation import changed


def body(spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {
            "uid": UID,
            "name": "orders",
            "namespace": "ingest",
            "creationTimestamp": "2026-11-21T11:00:00Z",
            "resourceVersion": "7",
            "generation": 2,
            "managedFields": [{"manager": "kubectl"}],
            **metadata,
        },
        "spec": bucket_ingest().spec.to_document() if spec is None else spec,
        **({} if status is None else {"status": status}),
    }


def test_a_valid_resource_is_read_completely() -> None:
    written = status_with(attempt(3, ended=5, outcome="Stuck"))
    found = read_resource(
        body(
            status=written.to_document(),
            finalizers=["bucketingest.dev/driver"],
            annotations={"bucketingest.dev/restart": "7", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        )
    )
    assert found.wanted is not None
    assert found.wanted.spec == bucket_ingest().spec
    assert found.status == written
    assert (found.version, found.generation, found.deleting) == ("7", 2, False)
    assert found.finalizers == ("bucketingest.dev/driver",)
    assert found.annotations == {"bucketingest.dev/restart": "7"}


def test_a_wrong_spec_becomes_problems() -> None:
    found = read_resource(body({"source": {}}))
    assert found.wanted is None
    assert any(problem.field == "spec.table" for problem in found.problems)


@pytest.mark.parametrize("spec", [None, "text", []])
def test_no_spec_at_all_is_a_problem_too(spec: Any) -> None:
    content = body()
    content["spec"] = spec
    assert read_resource(content).problems


@pytest.mark.parametrize("status", ["text", [], {"phase": "Dancing"}, {"attempts": 7}])
def test_an_invalid_status_is_empty(status: Any) -> None:
    assert read_resource(body(status=status)).status == Status()


def test_valid_fields_of_a_status_are_used() -> None:
    document = {**status_with(attempt(3)).to_document(), "phase": "Dancing", "unknown": 1}
    assert read_resource(body(status=document)).status == status_with(attempt(3))


def test_a_spec_that_has_not_changed_is_not_parsed_again() -> None:
    first = read_resource(body())
    again = read_resource(body(resourceVersion="8"), first)
    assert again.wanted is first.wanted
    assert read_resource(body(generation=3), first).wanted is not first.wanted


def test_the_default_image_is_a_part_of_the_spec_so_that_another_one_is_a_changed_spec() -> None:
    first, second = (read_resource(body(), image=f"job:{number}").wanted for number in (1, 2))
    assert first is not None
    assert second is not None
    assert first.spec.spark.image == "job:1"
    assert change_since(input_of(first), second) is Change.RESTART
    assert change_since(input_of(first), first) is Change.NONE
    seen = changed(second)  # after a commit with another image
    checked = replace(seen, resource=replace(seen.resource, wanted=with_preflight(second)))
    assert "CreateCheck" in kinds(reconcile(checked))
    own = read_resource(body(bucket_ingest({"spark": {"image": "own:7"}}).spec.to_document()), image="job:1").wanted
    assert own is not None
    assert own.spec.spark.image == "own:7"


def with_preflight(wanted: BucketIngest) -> BucketIngest:
    upgrade = wanted.spec.upgrade.model_copy(update={"preflight": True})
    return wanted.model_copy(update={"spec": wanted.spec.model_copy(update={"upgrade": upgrade})})


@pytest.mark.parametrize("suspend", [True, False, "true", None])
def test_whether_it_is_suspended_is_known_even_of_a_spec_that_is_wrong(suspend: Any) -> None:
    wrong = {**bucket_ingest().spec.to_document(), "commit": {"interval": "0s"}, "suspend": suspend}
    found = read_resource(body(wrong))
    assert found.wanted is None
    assert found.suspends == (suspend is True)
    assert not read_resource(body([])).suspends


def test_the_table_is_known_even_of_a_spec_that_is_wrong() -> None:
    assert table_of(body({"table": {"path": "s3a://lake/orders/"}, "source": 1})) == "s3://lake/orders"
    for spec in ({}, {"table": 1}, {"table": {"path": 7}}, "text"):
        assert table_of(body(spec)) is None


def test_fields_of_a_newer_definition_are_ignored_and_named() -> None:
    spec = bucket_ingest().spec.to_document()
    newer = {**spec, "later": {"a": 1}, "commit": {**spec["commit"], "later": "x"}}
    found = read_resource(body(newer))
    assert found.wanted == read_resource(body(spec)).wanted
    assert sorted(found.unknown) == ["spec.commit.later", "spec.later"]
    assert read_resource(body(newer, resourceVersion="8"), found).unknown == found.unknown


def test_metadata_of_a_newer_api_server_is_no_problem() -> None:
    assert read_resource(body(shard="7")).wanted is not None


def test_what_a_newer_operator_wrote_into_parts_of_the_status_loses_no_attempt() -> None:
    document = status_with(attempt(3)).to_document()
    document["attempts"][0]["later"] = 1
    assert read_resource(body(status=document)).status == status_with(attempt(3))
