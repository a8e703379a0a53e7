"""The Job of an audit on a real API server: made once, owned, gone when nobody wants it; the test plays its pod."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cluster.kube import Manifest, wait_for
from support.operator.observations import termination
from support.operator.scene import Scene, Start

ALWAYS = {"start": "00:00", "duration": "24h"}
AUDIT: dict[str, Any] = {
    "against": "postgres://auditor@db/shop",
    "passwordFrom": {"secretKeyRef": {"name": "auditor", "key": "password"}},
    "window": ALWAYS,
    "table": "inv.orders",
}
FOUND = "the table differs from its source; 1 missing, 0 extra, 0 with other values; missing: id=7"


def audits(scene: Scene) -> list[Manifest]:
    role = "bucketingest.dev/role=audit"
    found = json.loads(scene.kube.kubectl("get", "jobs", "-n", scene.namespace, "-l", role, "-o", "json"))["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def await_audit(scene: Scene, *, other_than: str = "") -> Manifest:
    """The pod of the only audit."""

    def find() -> Manifest:
        uids = [each["metadata"]["uid"] for each in audits(scene)]
        pods = [
            each
            for each in scene.pods(role="audit")
            if [owner["uid"] for owner in each["metadata"]["ownerReferences"]] == uids != [other_than]
        ]
        return pods[0] if pods else {}

    return wait_for(find, within=scene.within, description="the pod of an audit", state=scene.state)


def end(scene: Scene, pod: Manifest, code: int, message: str = "") -> None:
    name = pod["metadata"]["name"]
    scene.node.bind(scene.namespace, name)
    scene.node.end(scene.namespace, name, code, termination(code, message))


def await_none(scene: Scene) -> None:
    wait_for(lambda: not audits(scene), within=scene.within, description="no audit is left", state=scene.state)


def test_an_audit_runs_once_says_what_it_found_and_goes_with_its_section_or_its_resource(
    scene: Scene, start: Start
) -> None:
    operator = start()
    scene.apply()
    driver, job = scene.run(inflight=None)
    with job:
        scene.await_condition("CommitFresh", "True")
        assert audits(scene) == []
        scene.apply(audit=AUDIT)
        pod = await_audit(scene)
        (made,) = audits(scene)
        (owner,) = made["metadata"]["ownerReferences"]
        assert owner["uid"] == scene.resource()["metadata"]["uid"]
        (container,) = pod["spec"]["containers"]
        assert "password" not in " ".join(container["args"])
        end(scene, pod, 22, FOUND)
        said = scene.await_condition("MirrorEqual", "False", "RowsDiffer")
        assert FOUND in said["message"]
        scene.await_event("RowsDiffer")
        # an operator that is replaced begins no second one in the window
        operator.kill()
        operator.start()
        wait_for(lambda: operator.metric("bucketingest_attempt") == 1, within=60, description="it acts")
        assert [each["metadata"]["uid"] for each in audits(scene)] == [made["metadata"]["uid"]]
        # a changed section begins another
        scene.apply(audit={**AUDIT, "settle": "5m"})
        second = await_audit(scene, other_than=made["metadata"]["uid"])
        end(scene, second, 0)
        scene.await_condition("MirrorEqual", "True", "Equal")
        assert [each["metadata"]["name"] for each in scene.pods()] == [driver], "no driver restarted for it"
        scene.apply()
        await_none(scene)
        kinds = [each["type"] for each in scene.resource()["status"]["conditions"]]
        assert "MirrorEqual" not in kinds
        # one that runs goes with its resource
        scene.apply(audit=AUDIT)
        await_audit(scene)
        scene.kube.kubectl("delete", "bucketingest", "orders", "-n", scene.namespace, "--wait=false")
        scene.await_terminating(driver)
    scene.node.remove(scene.namespace, driver)
    await_none(scene)


def test_a_suspended_pipeline_is_not_audited(scene: Scene, start: Start) -> None:
    start()
    scene.apply(audit=AUDIT)
    driver, job = scene.run(inflight=None)
    with job:
        await_audit(scene)
        scene.apply(audit=AUDIT, suspend=True)
        await_none(scene)
        scene.await_terminating(driver)
    scene.node.remove(scene.namespace, driver)
    scene.await_condition("Ready", "True", "Suspended")
    assert audits(scene) == []


@pytest.mark.parametrize("against", ["postgres://u:secret@h/d", "postgres://u@h/d?password=x", "mysql://u@h/d"])
def test_the_api_server_refuses_a_password_and_other_databases(scene: Scene, against: str) -> None:
    with pytest.raises(AssertionError, match=r"spec\.audit\.against"):
        scene.apply(audit={**AUDIT, "against": against})
