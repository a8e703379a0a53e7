"""An outage of the API server, and a definition that is away, end nothing: the operator waits, and still knows all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest_operator.decide.failures import diagnose
from bucketingest_operator.observation import PodState
from support.cluster.kube import Kube, condition, wait_for
from support.operator.observations import driver, termination
from support.operator.outage import Outage
from support.operator.process import OperatorProcess
from support.operator.scene import Scene, Start

PATIENCE = 90.0
"""Kopf's is 20 s of waiting; each of its calls may take a time of its own."""


GIVEN_UP = "the watch of BucketIngests has ended and starts again"
CANNOT_LIST = "cannot list BucketIngests"
"""Said every 5 s. A definition that is away Kopf waits for, without a word, or it gives up: as it looks at the time."""


def outlasts(operator: OperatorProcess, event: str, *, times: int = 1) -> None:
    """Wait until the operator has said so again, so many times."""
    before = len(operator.lines(event))
    wait_for(
        lambda: len(operator.lines(event)) >= before + times or not operator.runs,
        within=PATIENCE,
        description=event,
        state=operator.log_text,
    )
    assert operator.runs, operator.log_text()


def test_an_outage_that_outlasts_kopf_ends_nothing_and_counters_survive(
    kube: Kube, scene: Scene, start: Start, tmp_path: Path
) -> None:
    scene.within = PATIENCE
    with Outage(kube.kubeconfig, tmp_path) as outage:
        operator = start("operator", outage.kubeconfig)
        scene.apply()
        scene.lose(1)
        pod, job = scene.run(2, inflight=None)
        with job:
            scene.await_condition("Ready", "True")

            def lost() -> float:
                return operator.metric("bucketingest_restarts_total", name="orders", **{"class": "DriverLost"}) or 0

            wait_for(lambda: lost() == 1, within=PATIENCE, description="the loss is counted")
            outage.begin(500, 503)
            outlasts(operator, GIVEN_UP)
            scene.node.remove(scene.namespace, pod)
            outage.end()
        _, job = scene.run(3, inflight=None)
        with job:
            scene.await_condition("Ready", "True")
            wait_for(lambda: lost() == 2, within=PATIENCE, description="it still counts from before")
            outage.definition_is_away()
            outlasts(operator, CANNOT_LIST, times=4)
            outage.end()
            scene.apply("another")
            scene.driver(1, "another")
            assert operator.runs
            assert lost() == 2


def with_history(scene: Scene, outcome: str, ended: Sequence[float]) -> None:
    """A resource whose attempts have all ended so, so many minutes ago each; no operator runs."""
    now = datetime.now(UTC)

    def at(minutes: float) -> str:
        return (now - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")

    scene.apply(restart={"maxFailures": 1})
    attempts = [
        {"number": number, "startedAt": at(minutes + 0.5), "endedAt": at(minutes), "outcome": outcome, "message": "503"}
        for number, minutes in enumerate(ended, 1)
    ]
    # Since the first of them no person has ended a stall.
    going_on = {"type": "Stalled", "status": "False", "reason": "Progressing", "message": ""}
    conditions = [{**going_on, "lastTransitionTime": at(max(ended) + 1)}]
    status = {"status": {"attempt": len(attempts), "attempts": attempts, "conditions": conditions}}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
    scene.kube.kubectl("patch", "bucketingest", "orders", "-n", scene.namespace, *patch)


HOURS = tuple(range(63, 5, -6))
"""Minutes since the ends of ten attempts, at the longest pause between two."""


@pytest.mark.parametrize(
    ("code", "ended", "stalls"),
    [
        (ExitCode.STORAGE_UNAVAILABLE, HOURS, "False"),
        (ExitCode.SOURCE_UNAVAILABLE, HOURS, "False"),
        (ExitCode.ACCESS_DENIED, HOURS[5:], "False"),
        (ExitCode.ACCESS_DENIED, HOURS[2:], "True"),
    ],
)
def test_a_provider_that_is_away_is_waited_for_without_limit_and_denials_stall_late_and_are_tried_again(
    scene: Scene, start: Start, code: ExitCode, ended: tuple[float, ...], stalls: str
) -> None:
    found = diagnose(driver(state=PodState.FAILED, exit_code=code))
    assert found is not None
    outcome, last = found.failure.value, len(ended) + 1
    with_history(scene, outcome, ended)
    operator = start()
    pod = scene.driver(last)
    scene.node.bind(scene.namespace, pod)
    scene.node.end(scene.namespace, pod, code, termination(code))
    scene.await_condition("Ready", "False", outcome)
    assert condition(scene.resource(), "Stalled")["status"] == stalls
    operator.kill()
    at = len(scene.resource()["status"]["attempts"]) - 1
    long_ago = (datetime.now(UTC) - timedelta(minutes=11)).strftime("%Y-%m-%dT%H:%M:%SZ")
    change = [{"op": "replace", "path": f"/status/attempts/{at}/endedAt", "value": long_ago}]
    patch = ("--subresource=status", "--type=json", "-p", json.dumps(change))
    scene.kube.kubectl("patch", "bucketingest", "orders", "-n", scene.namespace, *patch)
    operator.start()
    _, job = scene.run(last + 1, inflight=None)
    with job:
        scene.await_condition("Ready", "True")
        assert condition(scene.resource(), "Stalled")["status"] == "False"
