"""An outage of the API server, and a definition that is away, end nothing: the operator waits, and still knows all."""

from __future__ import annotations

from pathlib import Path

from support.cluster.kube import Kube, wait_for
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
