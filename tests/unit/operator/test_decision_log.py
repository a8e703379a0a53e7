"""A logged decision is read back and replayed, and contains no secret."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest_operator.decide.plan import StartAttempt, WriteStatus
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.decision_log import (
    LOGGED_MAX,
    decode_observation,
    encode_observation,
    encode_plan,
    record,
    without_secrets,
)
from bucketingest_operator.observation import (
    CheckJob,
    Claim,
    Contact,
    Executors,
    JobState,
    Observation,
    PodReason,
    PodState,
    Refusal,
    RollbackJob,
)
from support.operator.observations import (
    NAMES,
    NOW,
    UID,
    after,
    attempt,
    bucket_ingest,
    driver,
    ended,
    fallen_back,
    input_of,
    report,
    resource,
    status_with,
    termination,
    well,
)
from support.operator.probation import changed
from support.operator.simulated.fake_cluster import FakeCluster


def again(content: Any) -> Any:
    return json.loads(json.dumps(content))


def everything() -> Observation:
    wanted = bucket_ingest({"commit": {"trigger": "once"}, "health": {"maxCommitLag": "3m"}})
    rival = Claim("other", "orders", "u2", NOW - timedelta(days=2), has_driver=True)
    over = driver(
        2,
        PodState.FAILED,
        reason=PodReason.OOM_KILLED,
        exit_code=137,
        report=termination(17),
        finished_at=NOW,
        node_gone=True,
        terminating=True,
    )
    return Observation(
        now=NOW,
        resource=resource(wanted, status=status_with(attempt(1, ended=5, outcome="Stuck"), attempt(2))),
        drivers=(driver(1, PodState.SUCCEEDED), over),
        inputs={1: input_of(wanted), 2: replace(input_of(wanted, "n"), failures=(NOW,))},
        jobs=(RollbackJob(1, JobState.FAILED, exit_code=7, message="Denied."),),
        executors=Executors(1, 2, "too big"),
        contact=Contact(report(last_commit=None, epoch=None), NOW),
        claims=(rival,),
        live=False,
        namespace_terminating=True,
    )


OBSERVATIONS = {
    "well": well(),
    "everything": everything(),
    "stuck": ended("Stuck", 100),
    "nothing": Observation(NOW, resource(finalizers=())),
    "new": Observation(NOW, resource()),
    "deleting": after(well(), deleting=True),
}


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_what_is_read_back_is_what_was_written_and_decides_the_same(name: str) -> None:
    seen = OBSERVATIONS[name]
    read = decode_observation(again(encode_observation(seen)))
    assert read == seen
    plan = reconcile(seen)
    assert reconcile(read) == plan
    assert again(encode_plan(plan)) == encode_plan(plan), "a plan that was read from a log equals one that is made now"


def test_every_step_of_a_life_can_be_decided_again() -> None:
    cluster, kinds = FakeCluster(), set()
    for step in range(30):
        seen = cluster.observe()
        plan = reconcile(seen)
        read = decode_observation(again(encode_observation(seen)))
        assert reconcile(read) == plan
        kinds |= {type(action).__name__ for action in plan.actions}
        cluster.apply(plan)
        if step == 10:
            cluster.edit(suspend=True)
        if step == 20:
            cluster.delete()
        cluster.pass_time(1)
    assert {"AddFinalizer", "StartAttempt", "WriteStatus", "DeleteDriver", "EmitEvent"} <= kinds


SECRET = "hunter2hunter2"


def with_secret() -> Observation:
    kafka = {
        "bootstrapServers": "kafka:9092",
        "topics": ["orders"],
        "options": {"kafka.sasl.jaas.config": f'x.PlainLoginModule required username="u" password="{SECRET}";'},
    }
    wanted = bucket_ingest(
        {
            "source": {"kafka": kafka},
            "format": {"type": "json", "schema": "value BIGINT"},
            "spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": SECRET}},
        }
    )
    seen = well()
    return replace(seen, resource=replace(seen.resource, wanted=wanted), inputs={1: input_of(wanted)})


def with_secrets_in_both_specs() -> Observation:
    """On probation is a spec without a secret; the last one that committed has one."""
    good, wanted = with_secret().resource.wanted, bucket_ingest()
    assert good is not None
    return fallen_back(good, wanted)


def test_a_secret_that_a_user_wrote_into_the_spec_is_not_in_the_log() -> None:
    text = json.dumps(encode_observation(with_secret())) + json.dumps(encode_plan(reconcile(with_secret())))
    assert SECRET not in text
    assert "kafka:9092" in text
    both = with_secrets_in_both_specs()
    assert SECRET not in json.dumps(encode_observation(both)) + json.dumps(encode_plan(reconcile(both)))


def test_the_check_of_a_spec_with_a_secret_is_decided_alike_without_it() -> None:
    wanted = with_secret().resource.wanted
    assert wanted is not None
    upgrade = wanted.spec.upgrade.model_copy(update={"preflight": True})
    wanted = wanted.model_copy(update={"spec": wanted.spec.model_copy(update={"upgrade": upgrade})})
    seen = changed(wanted)
    first = reconcile(seen)
    assert "CreateCheck" in [type(action).__name__ for action in reconcile(without_secrets(seen)).actions]
    assert SECRET not in json.dumps(encode_plan(first))
    name = NAMES.preflight(digest(wanted))
    running = CheckJob(name, "job-1", digest(wanted), JobState.RUNNING, NOW)
    refused = Refusal(name, "exceeded quota", NOW, "preflight")
    for change in ({"preflights": (running,)}, {"refusals": (refused,)}):
        later = replace(after(seen, status=first.status), **change)
        read = decode_observation(again(encode_observation(later)))
        names = [type(action).__name__ for action in reconcile(read).actions]
        assert names == [type(action).__name__ for action in reconcile(later).actions]
        assert "CreateCheck" not in names


def test_a_spec_without_its_secrets_still_counts_as_the_one_the_attempt_was_started_with() -> None:
    seen = with_secret()
    read = decode_observation(again(encode_observation(seen)))
    assert [each for each in reconcile(read).actions if not isinstance(each, WriteStatus)] == []
    assert reconcile(read).status.phase == reconcile(seen).status.phase == "Running"
    changed = replace(seen, inputs={1: replace(seen.inputs[1], spec_digest="another")})
    read = decode_observation(again(encode_observation(changed)))
    names = [type(action).__name__ for action in reconcile(read).actions]
    assert names == [type(action).__name__ for action in reconcile(changed).actions]
    assert "DeleteDriver" in names
    both = with_secrets_in_both_specs()
    read = decode_observation(again(encode_observation(both)))
    starts = [each for plan in map(reconcile, (both, read)) for each in plan.actions if isinstance(each, StartAttempt)]
    assert [each.wanted.spec.source.kafka is not None for each in starts] == [True, True]


def test_the_keys_of_older_logs_stay() -> None:
    observation = encode_observation(everything())
    assert (set(observation["told"]), observation["claims"][0]["begun"]) == ({"1", "2"}, False)
    starts = [each for each in encode_plan(reconcile(ended("Suspended", 9)))["actions"] if "told" in each]
    assert [each["action"] for each in starts] == ["StartAttempt"]


def test_the_uid_survives() -> None:
    assert decode_observation(again(encode_observation(well()))).resource.uid == UID


def test_a_spec_or_claims_without_end_fill_no_log_and_the_plan_is_still_there() -> None:
    long = bucket_ingest({"spark": {"conf": {f"spark.x{number}": "a" * 8000 for number in range(150)}}})
    rival = Claim("ingest", "orders", "u2", NOW, has_driver=True)
    for seen in (
        replace(well(), resource=replace(resource(), wanted=long)),
        replace(well(), claims=(rival,) * 5000),
        replace(well(), inputs={number: input_of(bucket_ingest()) for number in range(2000)}),
    ):
        plan = reconcile(seen)
        logged = record(seen, plan)
        assert logged["observation"].startswith("left out: it has ")
        assert logged["plan"] == encode_plan(plan)
        assert len(json.dumps(logged)) < LOGGED_MAX
    assert record(well(), reconcile(well()))["observation"] == encode_observation(well())
