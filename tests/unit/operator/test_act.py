"""Carrying out plans: in order, up to the first failure, only as the leader; a repetition has no effect."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bucketingest.spec.job_report import CompactionWork
from bucketingest_operator.act import Actor, NotLeader
from bucketingest_operator.decide.plan import (
    Action,
    AddFinalizer,
    CreateCompaction,
    CreateRollback,
    DeleteAttempt,
    DeleteCompaction,
    DeleteDriver,
    DeleteExecutors,
    DeleteRollback,
    EmitEvent,
    RemoveFinalizer,
    StartAttempt,
    WriteStatus,
)
from bucketingest_operator.kube.api import AlreadyExists, ApiError, Conflict, NotFound
from bucketingest_operator.kube.creation import CreationRefused
from bucketingest_operator.kube.kinds import Kind
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observation import Refusal
from bucketingest_operator.resource import FINALIZER
from support.operator.observations import NAMES, UID, attempt, bucket_ingest, input_of, resource, status_with

WANTED = bucket_ingest()
STATUS = WriteStatus(status_with(attempt(1)), "1")
START = StartAttempt(1, input_of(WANTED), WANTED)
WORK = CompactionWork(compaction="20261121115000000", number=3, round=1, chunks=4, size=10**10)
COMPACT = CreateCompaction(WORK, "digest", WANTED)
EVENT = EmitEvent("Normal", "AttemptStarting", "Starting attempt 1.", "1")


class RecordingApi:
    """Records its calls, and fails as a test says: by the verb and the kind, always or the first times."""

    def __init__(self, **failures: ApiError | list[ApiError]) -> None:
        self.calls: list[str] = []
        self.bodies: list[Any] = []
        self.failures = failures
        self.version = 1
        self.config_maps: list[dict[str, Any]] = []

    def _called(self, verb: str, kind: Kind, name: str, body: Any = None) -> dict[str, Any]:
        self.calls.append(f"{verb} {kind.plural} {name}")
        self.bodies.append(body)
        if failure := self.failures.get(f"{verb}_{kind.plural}"):
            raise failure.pop(0) if isinstance(failure, list) else failure
        self.version += 1
        return {"metadata": {"name": name, "uid": f"uid-{self.version}", "resourceVersion": str(self.version)}}

    async def get(self, kind: Kind, _namespace: str, name: str) -> Any:
        return self._called("get", kind, name)

    async def create(self, kind: Kind, _namespace: str, body: Any) -> Any:
        return self._called("create", kind, body["metadata"]["name"], body)

    async def apply(self, kind: Kind, _namespace: str, name: str, body: Any) -> Any:
        return self._called("apply", kind, name, body)

    async def replace(self, kind: Kind, _namespace: str, name: str, body: Any, part: str | None = None) -> Any:
        return self._called("replace", kind, f"{name}/{part}", body)

    async def patch(self, kind: Kind, _namespace: str, name: str, body: Any) -> Any:
        return self._called("patch", kind, name, body)

    async def delete(self, kind: Kind, _namespace: str, name: str, *, grace: int | None = None) -> None:
        self._called("delete", kind, name if grace is None else f"{name} within {grace} s")

    async def list(self, kind: Kind, _namespace: str, labels: str = "") -> Any:
        self._called("list", kind, labels)
        return self.config_maps, "1"

    async def delete_all(self, kind: Kind, _namespace: str, labels: str) -> None:
        self._called("delete_all", kind, labels)


class Acting:
    def __init__(
        self, api: RecordingApi, may_act: Callable[[], bool] = lambda: True, settings: JobSettings | None = None
    ) -> None:
        self.counted: list[tuple[str, str]] = []
        self.wrote: list[tuple[str, str]] = []
        self.refusals: list[tuple[str, Refusal]] = []
        self._actor = Actor(
            api,  # type: ignore[arg-type]
            settings or JobSettings(),
            may_act=may_act,
            count=lambda action, result: self.counted.append((action, result)),
            identity="me",
            refused=lambda uid, refusal: self.refusals.append((uid, refusal)),
        )

    def act(self, *actions: Action, **changes: Any) -> None:
        def wrote(action: Action, body: dict[str, Any]) -> None:
            self.wrote.append((type(action).__name__, body["metadata"]["resourceVersion"]))

        asyncio.run(self._actor.act(resource(**changes), actions, wrote))


def test_actions_are_carried_out_in_order() -> None:
    api = RecordingApi()
    Acting(api).act(STATUS, START, EVENT)
    assert [each.rpartition(" ")[0] for each in api.calls] == [
        "replace bucketingests",
        "apply networkpolicies",
        "apply serviceaccounts",
        "apply roles",
        "apply rolebindings",
        "create configmaps",
        "create secrets",
        "create services",
        "create pods",
        "create events",
    ]


def test_a_status_is_written_only_if_the_resource_has_not_changed() -> None:
    api = RecordingApi()
    Acting(api).act(STATUS)
    assert api.bodies[0]["metadata"]["resourceVersion"] == "1"
    assert api.bodies[0]["metadata"]["uid"] == UID
    assert api.calls == ["replace bucketingests orders/status"]


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
    assert acting.counted == [("WriteStatus", "done"), ("StartAttempt", "failed")]


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
        Acting(api, lambda: next(answers)).act(STATUS, START)
    assert api.calls == ["replace bucketingests orders/status"]


@pytest.mark.parametrize("kind", ["pods", "services"])
def test_an_object_that_already_exists_is_no_error(kind: str) -> None:
    api = RecordingApi(**{f"create_{kind}": AlreadyExists("there", code=409)})
    Acting(api).act(START)
    assert len(api.calls) == 8


THERE = AlreadyExists("POST: 409", code=409)


def test_an_attempt_whose_start_was_interrupted_is_resumed_with_its_configuration() -> None:
    api = RecordingApi(create_configmaps=[THERE], get_pods=NotFound("none", code=404))
    annotations = {"bucketingest.dev/rpc-part": "of-before"}
    name = NAMES.attempt(1)
    api.config_maps = [{"metadata": {"name": name, "uid": "uid-of-before", "annotations": annotations}}]
    Acting(api).act(START)
    (secret,) = [body for body in api.bodies if body and body.get("kind") == "Secret"]
    assert secret["metadata"]["name"] == NAMES.rpc_secret("of-before")
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "uid-of-before"
    (pod,) = [body for body in api.bodies if body and body.get("kind") == "Pod"]
    assert NAMES.rpc_secret("of-before") in str(pod["spec"]["volumes"])
    assert not [each for each in api.calls if each.startswith("delete configmaps")]


def test_a_secret_that_was_made_before_the_operator_ended_is_kept() -> None:
    api = RecordingApi(create_configmaps=[THERE], create_secrets=THERE, get_pods=NotFound("none", code=404))
    annotations = {"bucketingest.dev/rpc-part": "of-before"}
    api.config_maps = [{"metadata": {"name": NAMES.attempt(1), "uid": "u", "annotations": annotations}}]
    Acting(api).act(START)
    assert api.calls[-1] == f"create pods {NAMES.driver(1)}"


def test_a_configuration_that_names_no_secret_is_made_again_by_the_next_pass() -> None:
    api = RecordingApi(create_configmaps=[THERE], get_pods=NotFound("none", code=404))
    api.config_maps = [{"metadata": {"name": NAMES.attempt(1), "uid": "u"}}]
    acting = Acting(api)
    with pytest.raises(CreationRefused, match="rpc-part"):
        acting.act(START)
    assert api.calls[-1] == f"delete configmaps {NAMES.attempt(1)}"
    acting.act(START)
    assert api.calls[-1] == f"create pods {NAMES.driver(1)}"


def test_an_attempt_whose_driver_exists_keeps_its_configuration_and_its_secret() -> None:
    api = RecordingApi(create_configmaps=THERE)
    acting = Acting(api)
    acting.act(START)
    assert api.calls[-1] == f"get pods {NAMES.driver(1)}"
    assert not [each for each in api.calls if each.startswith(("create secrets", "delete"))]
    assert acting.counted == [("StartAttempt", "done")]


def test_a_secret_that_somebody_else_made_is_never_used() -> None:
    api = RecordingApi(create_secrets=[THERE])
    acting = Acting(api)
    with pytest.raises(CreationRefused) as caught:
        acting.act(START)
    (made,) = [body["metadata"]["name"] for body in api.bodies if body and body["kind"] == "Secret"]
    assert caught.value.sentence.startswith(f"The Secret {made} exists, and the operator did not make it")
    assert not [each for each in api.calls if each.startswith("create pods")]
    assert api.calls[-1] == f"delete configmaps {NAMES.attempt(1)}"
    acting.act(START)
    assert made not in api.calls[-1]
    assert {each for each in api.calls if each.startswith("create secrets")} > {f"create secrets {made}"}


DELETIONS: Sequence[Action] = (
    DeleteDriver(1, NAMES.driver(1)),
    DeleteRollback(1),
    DeleteAttempt(1),
)


@pytest.mark.parametrize("action", DELETIONS, ids=lambda each: type(each).__name__)
def test_an_object_that_is_already_gone_is_no_error(action: Action) -> None:
    gone = NotFound("none", code=404)
    failures = {f"delete_{kind}": gone for kind in ("pods", "jobs", "services", "configmaps")}
    acting = Acting(RecordingApi(**failures))
    acting.act(action)
    assert acting.counted == [(type(action).__name__, "done")]


def test_only_a_driver_on_a_lost_node_is_not_waited_for_and_one_that_is_stuck_not_for_long() -> None:
    api = RecordingApi()
    Acting(api).act(DeleteDriver(1, "a"), DeleteDriver(1, "b", force=True), DeleteDriver(1, "c", stuck=True))
    assert api.calls == ["delete pods a", "delete pods b within 0 s", "delete pods c within 5 s"]


def test_a_cleanup_deletes_all_of_one_attempt_and_its_config_map_last() -> None:
    api = RecordingApi()
    Acting(api).act(DeleteAttempt(3))
    selector = f"bucketingest.dev/uid={UID},bucketingest.dev/attempt=3,bucketingest.dev/role=executor"
    assert api.calls == [
        f"delete_all pods {selector}",
        f"delete pods {NAMES.driver(3)}",
        f"delete jobs {NAMES.rollback(3)}",
        f"delete services {NAMES.driver(3)}",
        f"delete configmaps {NAMES.attempt(3)}",
    ]


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


def test_an_allowed_account_of_another_namespace_is_not_allowed_here() -> None:
    settings = JobSettings(allowed_accounts=frozenset({"other/cluster-admin"}))
    with pytest.raises(CreationRefused):
        Acting(RecordingApi(), settings=settings).act(CreateRollback(1, FORBIDDEN))
    settings = JobSettings(allowed_accounts=frozenset({"ingest/cluster-admin"}))
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
    acting.act(COMPACT, DeleteCompaction("orders-compaction-3-1"))
    assert acting.refusals == []
    assert acting.counted == [("CreateCompaction", "done"), ("DeleteCompaction", "done")]


def test_every_attempt_gets_a_secret_of_256_bits_that_no_other_has_and_that_is_in_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = set()
    for _ in range(2):
        api = RecordingApi()
        with caplog.at_level("DEBUG"):
            Acting(api).act(START)
        (secret,) = [body for body in api.bodies if body and body["kind"] == "Secret"]
        (value,) = [base64.b64decode(each).decode() for each in secret["data"].values()]
        assert len(bytes.fromhex(value)) == 32
        (owner,) = secret["metadata"]["ownerReferences"]
        # That of the answer: the configuration goes with the attempt, and the Secret with it.
        assert (owner["kind"], owner["name"], owner["uid"][:4]) == ("ConfigMap", NAMES.attempt(1), "uid-")
        others = [body for body in api.bodies if body is not secret]
        using = [body for body in others if secret["metadata"]["name"] in json.dumps(body)]
        assert [body["kind"] for body in using] == ["ConfigMap", "Pod"]
        assert value not in json.dumps(others)
        assert value not in caplog.text
        made |= {value, secret["metadata"]["name"]}
    assert len(made) == 4


def test_without_network_policies_that_of_an_earlier_attempt_is_deleted() -> None:
    api = RecordingApi(delete_networkpolicies=NotFound("", code=404))
    Acting(api, settings=JobSettings(network_policy=False)).act(START)
    assert [each for each in api.calls if "networkpolicies" in each] == [f"delete networkpolicies {NAMES.base}"]
    assert api.calls[-1].startswith("create pods")
