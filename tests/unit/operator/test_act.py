"""Carrying out plans: what is independent at the same time, only as the leader; a repetition has no effect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from bucketingest.spec.status import UpgradeStatus
from bucketingest_operator.decide.plan import (
    Action,
    AddFinalizer,
    CreateCheck,
    CreateCompaction,
    CreateRollback,
    DeleteAttempt,
    DeleteDriver,
    DeleteExecutors,
    DeleteJob,
    EmitEvent,
    RemoveFinalizer,
    StartAttempt,
    WriteStatus,
)
from bucketingest_operator.kube.api import AlreadyExists, ApiError, Conflict, NotFound
from bucketingest_operator.kube.kinds import Kind
from bucketingest_operator.kube.leaders_api import CreationRefused, NotLeader
from bucketingest_operator.manifests.settings import JobSettings, NetworkPolicy
from bucketingest_operator.resource import FINALIZER
from support.operator.observations import NAMES, UID, bucket_ingest, input_of
from support.operator.recorded_actions import COMPACT, EVENT, START, STATUS, WANTED, WORK, Acting, RecordingApi


class _InRounds(RecordingApi):
    """Answers no call before all that can begin have begun: what begins between two answers is a round."""

    def __init__(self, **failures: ApiError | list[ApiError]) -> None:
        super().__init__(**failures)
        self.rounds: list[set[str]] = []
        self._asked: list[asyncio.Future[None]] = []

    async def _turn(self, call: str) -> None:
        if not self._asked:
            self.rounds.append(set())
            asyncio.get_running_loop().call_later(0, self._answer, 20)
        self.rounds[-1].add(call)
        self._asked.append(future := asyncio.get_running_loop().create_future())
        await future

    def _answer(self, turns: int) -> None:
        if turns:  # of the loop, in which tasks go on
            asyncio.get_running_loop().call_soon(self._answer, turns - 1)
            return
        asked, self._asked = self._asked, []
        for each in asked:
            each.set_result(None)

    async def create(self, kind: Kind, _namespace: str, body: Any) -> Any:
        await self._turn(f"create {kind.plural}")
        return await super().create(kind, _namespace, body)

    async def apply(self, kind: Kind, _namespace: str, name: str, body: Any) -> Any:
        await self._turn(f"apply {kind.plural}")
        return await super().apply(kind, _namespace, name, body)

    async def replace(self, kind: Kind, _namespace: str, name: str, body: Any, part: str | None = None) -> Any:
        await self._turn(f"replace {kind.plural}")
        return await super().replace(kind, _namespace, name, body, part)

    async def patch(self, kind: Kind, _namespace: str, name: str, body: Any) -> Any:
        await self._turn(f"patch {kind.plural}")
        return await super().patch(kind, _namespace, name, body)

    async def delete_all(self, kind: Kind, _namespace: str, labels: str) -> None:
        await self._turn(f"delete_all {kind.plural}")
        await super().delete_all(kind, _namespace, labels)


def test_a_restart_takes_four_rounds_of_calls_whatever_else_is_done_beside_it() -> None:
    api = _InRounds()
    Acting(api).act(STATUS, DeleteExecutors(1), START, EVENT)
    assert api.rounds == [
        {"replace bucketingests"},
        {
            "delete_all pods",
            "create configmaps",
            "apply networkpolicies",
            "apply serviceaccounts",
            "apply roles",
            "create events",
        },
        {"create secrets", "apply rolebindings"},
        {"create pods"},
    ]


def test_the_finalizer_is_removed_after_all_that_was_planned_before_it() -> None:
    api = _InRounds()
    Acting(api).act(STATUS, DeleteExecutors(1), RemoveFinalizer(), EVENT)
    assert api.rounds == [
        {"replace bucketingests"},
        {"delete_all pods"},
        {"patch bucketingests"},
        {"create events"},
    ]


def test_a_failure_leaves_nothing_undone_beside_it_and_each_is_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    failures = {"delete_all_pods": ApiError("no answer"), "create_pods": ApiError("", code=422, sentence="no pods")}
    acting = Acting(api := RecordingApi(**failures))
    with pytest.raises(CreationRefused):
        acting.act(STATUS, DeleteExecutors(1), START, EVENT)
    assert sorted(acting.counted[1:]) == [
        ("DeleteExecutors", "failed"),
        ("EmitEvent", "done"),
        ("StartAttempt", "failed"),
    ]
    assert any(call.startswith("create events") for call in api.calls)
    assert "no answer" in next(str(each.__dict__["error"]) for each in caplog.records if "failed too" in each.message)


def test_a_status_is_written_only_if_the_resource_has_not_changed() -> None:
    api = RecordingApi()
    Acting(api).act(STATUS)
    assert api.bodies[0]["metadata"]["resourceVersion"] == "1"
    assert api.bodies[0]["metadata"]["uid"] == UID
    assert api.calls == ["replace bucketingests orders/status"]


@pytest.mark.parametrize("known", [True, False])
def test_a_definition_that_drops_what_is_known_of_a_changed_spec_is_noticed(known: bool) -> None:
    upgrade = UpgradeStatus(attempt=1, digest="digest")
    status = STATUS.status.model_copy(update={"upgrade": upgrade})
    api = RecordingApi()
    api.kept_status = status.to_document() if known else {"attempt": 1}
    acting = Acting(api)
    acting.act(STATUS)
    assert acting.actor.upgrade_kept, "nothing to keep was written"
    acting.act(WriteStatus(status, "1"))
    assert acting.actor.upgrade_kept is known


def test_a_conflict_stops_everything_after_it() -> None:
    api = RecordingApi(replace_bucketingests=Conflict("changed", code=409))
    acting = Acting(api)
    with pytest.raises(Conflict):
        acting.act(STATUS, START)
    assert len(api.calls) == 1
    assert acting.counted == [("WriteStatus", "failed")]
    assert acting.wrote == []


def test_what_was_written_before_a_failure_is_reported() -> None:
    acting = Acting(RecordingApi(create_pods=ApiError("quota", code=403)))
    with pytest.raises(ApiError):
        acting.act(STATUS, START, EVENT)
    assert acting.wrote == [("WriteStatus", "2")]
    assert acting.counted == [("WriteStatus", "done"), ("EmitEvent", "done"), ("StartAttempt", "failed")]


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ApiError("", code=403, sentence="exceeded quota: small"), True),
        (ApiError("", code=422, sentence="ValidatingAdmissionPolicy denied the request"), True),
        (ApiError("", code=500, sentence='failed calling webhook "policy"'), True),
        (ApiError("", code=500, sentence="etcd is gone"), False),
        (ApiError("", code=429, sentence="too many requests"), False),
        (ApiError("", code=403, causes=("NamespaceTerminating",)), False),
    ],
)
def test_what_a_rule_of_the_cluster_refuses_is_told_apart_with_its_sentence(error: ApiError, refused: bool) -> None:
    with pytest.raises(ApiError) as caught:
        Acting(RecordingApi(create_pods=error)).act(STATUS, START)
    assert isinstance(caught.value, CreationRefused) == refused
    assert not refused or f"Pod {NAMES.driver(1)}: {error.sentence}" in caught.value.sentence


def test_after_losing_leadership_no_action_starts() -> None:
    api, answers = RecordingApi(), iter([True, False])
    with pytest.raises(NotLeader):
        Acting(api, lambda _namespace: next(answers)).act(STATUS, START)
    assert api.calls == ["replace bucketingests orders/status"]


@pytest.mark.parametrize("calls", range(8))
def test_after_losing_leadership_within_an_action_no_call_starts(calls: int) -> None:
    api = RecordingApi()
    with pytest.raises(NotLeader):
        Acting(api, lambda _namespace: len(api.calls) < calls).act(START, DeleteAttempt(1))
    assert len(api.calls) == calls


@pytest.mark.parametrize(
    "action",
    [DeleteDriver(1, "orders-1", uid="seen"), DeleteJob("c", "seen")],
)
def test_only_what_was_observed_is_deleted(action: Action) -> None:
    api = RecordingApi()
    Acting(api).act(action)
    assert api.uids == ["seen"], "a new leader may have made another object of this name"


def test_an_object_that_already_exists_is_no_error() -> None:
    api = RecordingApi(create_pods=AlreadyExists("there", code=409))
    Acting(api).act(START)
    assert len(api.calls) == 7


DELETIONS: Sequence[Action] = (
    DeleteDriver(1, NAMES.driver(1)),
    DeleteAttempt(1),
)


@pytest.mark.parametrize("action", DELETIONS, ids=lambda each: type(each).__name__)
def test_an_object_that_is_already_gone_is_no_error(action: Action) -> None:
    gone = NotFound("none", code=404)
    failures = {f"delete_{kind}": gone for kind in ("pods", "jobs", "configmaps")}
    acting = Acting(RecordingApi(**failures))
    acting.act(action)
    assert acting.counted == [(type(action).__name__, "done")]


def test_only_a_driver_on_a_lost_node_is_not_waited_for_and_one_that_is_stuck_not_for_long() -> None:
    api = RecordingApi()
    Acting(api).act(DeleteDriver(1, "a"), DeleteDriver(1, "b", force=True), DeleteDriver(1, "c", stuck=True))
    assert api.calls == ["delete pods a", "delete pods b within 0 s", "delete pods c within 5 s"]


def test_a_cleanup_deletes_what_there_is_of_one_attempt_and_its_config_map_last() -> None:
    api, seldom = RecordingApi(), RecordingApi()
    Acting(api).act(DeleteAttempt(3))
    assert api.calls == [f"delete configmaps {NAMES.attempt(3)}"]
    Acting(seldom).act(DeleteAttempt(3, has_driver=True, has_job=True))
    assert seldom.calls == [f"delete pods {NAMES.driver(3)}", f"delete jobs {NAMES.rollback(3)}", *api.calls]


def test_executors_are_deleted_by_their_labels() -> None:
    api = RecordingApi()
    Acting(api).act(DeleteExecutors(2))
    assert api.calls[0].startswith("delete_all pods ")
    assert "attempt=2" in api.calls[0]


def test_a_rollback_has_the_account_it_runs_under() -> None:
    api = RecordingApi()
    Acting(api).act(CreateRollback(1, WANTED))
    assert api.calls == [f"apply serviceaccounts {NAMES.base}", f"create jobs {NAMES.rollback(1)}"]


FORBIDDEN = bucket_ingest({"pod": {"serviceAccountName": "cluster-admin"}})


@pytest.mark.parametrize("action", [StartAttempt(1, input_of(FORBIDDEN), FORBIDDEN), CreateRollback(1, FORBIDDEN)])
def test_an_account_that_no_administrator_allowed_gets_nothing_made(action: Action) -> None:
    api = RecordingApi()
    with pytest.raises(CreationRefused) as caught:
        Acting(api).act(action)
    assert api.calls == []
    assert "adds ingest/cluster-admin to job.allowedServiceAccounts" in caught.value.sentence


def test_a_compaction_with_an_account_that_no_administrator_allowed_is_refused_like_one_by_a_quota() -> None:
    api = RecordingApi()
    acting = Acting(api)
    acting.act(CreateCompaction(WORK, "digest", FORBIDDEN))
    assert api.calls == []
    assert acting.refusals


def test_a_check_with_such_an_account_is_refused_as_its_driver_would_be() -> None:
    api = RecordingApi()
    acting = Acting(api)
    acting.act(CreateCheck("preflight", 1, "0123456789abcdef", FORBIDDEN), EVENT)
    assert [call.split()[1] for call in api.calls] == ["events"]
    ((_, refusal),) = acting.refusals
    assert (refusal.role, refusal.about_driver) == ("preflight", True)
    assert "adds ingest/cluster-admin to job.allowedServiceAccounts" in refusal.message


def test_a_check_that_a_quota_refuses_says_nothing_of_the_driver() -> None:
    acting = Acting(RecordingApi(create_jobs=ApiError("POST: 403 Forbidden: exceeded quota", code=403)))
    acting.act(CreateCheck("preflight", 1, "0123456789abcdef", WANTED))
    ((_, refusal),) = acting.refusals
    assert (refusal.job, refusal.about_driver) == (NAMES.preflight("0123456789abcdef"), False)


def test_a_check_is_made_and_deleted_by_its_name() -> None:
    api = RecordingApi()
    name = NAMES.preflight("0123456789abcdef")
    Acting(api).act(CreateCheck("preflight", 1, "0123456789abcdef", WANTED), DeleteJob(name))
    assert api.calls[1:] == [f"create jobs {name}", f"delete jobs {name}"]


def test_an_allowed_account_of_another_namespace_is_not_allowed_here() -> None:
    settings = JobSettings(allowed_service_accounts=frozenset({"other/cluster-admin"}))
    with pytest.raises(CreationRefused):
        Acting(RecordingApi(), settings=settings).act(CreateRollback(1, FORBIDDEN))
    settings = JobSettings(allowed_service_accounts=frozenset({"ingest/cluster-admin"}))
    api = RecordingApi()
    Acting(api, settings=settings).act(CreateRollback(1, FORBIDDEN))
    assert api.calls == [f"create jobs {NAMES.rollback(1)}"]


def test_our_finalizer_is_added_and_removed_and_others_stay() -> None:
    api = RecordingApi()
    Acting(api).act(AddFinalizer(), finalizers=("other/finalizer",))
    Acting(api).act(RemoveFinalizer(), finalizers=("other/finalizer", FINALIZER))
    assert [body["metadata"]["finalizers"] for body in api.bodies] == [
        ["other/finalizer", FINALIZER],
        ["other/finalizer"],
    ]


def test_the_finalizer_is_removed_only_from_the_version_of_our_status_write() -> None:
    api = RecordingApi()
    Acting(api).act(STATUS, RemoveFinalizer())
    assert api.bodies[1]["metadata"]["resourceVersion"] == "2"


def test_the_same_event_has_the_same_name_and_another_has_another() -> None:
    api = RecordingApi()
    Acting(api).act(EVENT, EVENT, EmitEvent("Normal", "AttemptStarting", "Starting attempt 2.", "2"))
    names = [each.rpartition(" ")[2] for each in api.calls]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize("failure", [AlreadyExists("there", code=409), ApiError("going", code=403)])
def test_an_event_that_cannot_be_created_stops_nothing(failure: ApiError) -> None:
    api = RecordingApi(create_events=failure)
    Acting(api).act(EVENT, DeleteExecutors(1))
    assert len(api.calls) == 2


def test_a_job_that_a_quota_refuses_is_noted_and_the_rest_is_done() -> None:
    api = RecordingApi(create_jobs=ApiError("POST: 403 Forbidden: exceeded quota", code=403))
    acting = Acting(api)
    acting.act(COMPACT, EVENT)
    assert [call.split()[1] for call in api.calls] == ["serviceaccounts", "jobs", "events"]
    ((uid, refusal),) = acting.refusals
    assert (uid, refusal.job) == (UID, NAMES.compaction(3, 1))
    assert "exceeded quota" in refusal.message


@pytest.mark.parametrize(
    "failure",
    [
        ApiError("POST: the API server does not answer"),
        ApiError("POST: 500", code=500),
        ApiError("POST: 403", code=403, causes=("NamespaceTerminating",)),
        NotFound("POST: 404", code=404),
    ],
    ids=["silence", "500", "namespace", "404"],
)
def test_a_failure_that_says_nothing_of_the_job_is_a_failure(failure: ApiError) -> None:
    acting = Acting(RecordingApi(create_jobs=failure))
    with pytest.raises(ApiError):
        acting.act(COMPACT)
    assert acting.refusals == []


def test_a_compactions_job_that_exists_is_no_failure() -> None:
    acting = Acting(RecordingApi(create_jobs=AlreadyExists("POST: 409", code=409)))
    acting.act(COMPACT, DeleteJob("orders-compaction-3-1"))
    assert acting.refusals == []
    assert acting.counted == [("CreateCompaction", "done"), ("DeleteJob", "done")]


def test_without_network_policies_that_of_an_earlier_attempt_is_deleted() -> None:
    api = RecordingApi(delete_networkpolicies=NotFound("", code=404))
    Acting(api, settings=JobSettings(network_policy=NetworkPolicy(enabled=False))).act(START)
    assert [each for each in api.calls if "networkpolicies" in each] == [f"delete networkpolicies {NAMES.base}"]
    assert api.calls[-1].startswith("create pods")


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {
            "table": {"path": "s3://own/orders", "recordKey": ["value"]},
            "errors": {"deadLetterPath": "s3://lake/letters"},
        },
        {"table": {"path": "s3://own/orders", "recordKey": ["value"]}, "checkpoint": {"path": "s3://lake/check"}},
    ],
    ids=["table", "dead letters", "checkpoint"],
)
def test_a_path_of_another_namespace_gets_nothing_made(spec: dict[str, Any]) -> None:
    wanted = bucket_ingest(spec)
    api = RecordingApi()
    settings = JobSettings(table_owners={"s3://lake": ("other",)})
    with pytest.raises(CreationRefused) as caught:
        Acting(api, settings=settings).act(StartAttempt(1, input_of(wanted), wanted))
    assert api.calls == []
    assert "job.tableOwners" in caught.value.sentence
    Acting(api, settings=JobSettings(table_owners={"s3://lake": ("ingest",)})).act(CreateRollback(1, wanted))
    assert api.calls


@pytest.mark.parametrize(
    ("pod", "settings", "allowed"),
    [
        ({"priorityClassName": "system-node-critical"}, JobSettings(), False),
        ({"priorityClassName": "batch"}, JobSettings(), True),
        ({"priorityClassName": "batch"}, JobSettings(allowed_priority_classes=frozenset({"low"})), False),
        ({"priorityClassName": "low"}, JobSettings(allowed_priority_classes=frozenset({"low"})), True),
        ({"tolerations": [{"operator": "Exists"}]}, JobSettings(), False),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, JobSettings(), True),
        ({"tolerations": [{"key": "gpu"}]}, JobSettings(allowed_toleration_keys=frozenset({"spark"})), False),
    ],
)
def test_priorities_and_tolerations_are_those_that_an_administrator_allows(
    pod: dict[str, Any], settings: JobSettings, allowed: bool
) -> None:
    api, wanted = RecordingApi(), bucket_ingest({"pod": pod})
    if allowed:
        Acting(api, settings=settings).act(CreateRollback(1, wanted))
        return
    with pytest.raises(CreationRefused) as caught:
        Acting(api, settings=settings).act(CreateRollback(1, wanted))
    assert "of the chart" in caught.value.sentence
    assert api.calls == []
