"""Problems appear in conditions, the operator answers by their class, and they end with their cause."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator

import pytest

from devcluster.cluster import Cluster
from devcluster.release import NAMESPACE as OPERATORS
from devcluster.release import install
from devservers.s3 import S3Server
from support.cluster.faults import kill_first_process, offer_to_oom_killer
from support.cluster.kube import Kube, Manifest, condition, outline, wait_for
from support.cluster.metadata_service import MetadataService
from support.cluster.pipeline import Pipeline

NewPipeline = Callable[..., Pipeline]
# Many, so that each is smaller than the JVM for the kernel.
MEMORY_EATERS = """
import os, time
for _ in range(48):
    if not os.fork():
        kept = b"x" * (100 << 20)
        break
time.sleep(30)
"""
OPERATOR = {"app.kubernetes.io/name": "bucketingest-operator"}


def ready_operators(kube: Kube) -> list[Manifest]:
    pods = kube.pods(OPERATORS, OPERATOR)
    return [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and all(each["ready"] for each in pod["status"].get("containerStatuses") or [{"ready": False}])
    ]


def test_an_image_that_cannot_be_pulled_is_reported_and_a_right_one_starts_at_once(
    on_volume: NewPipeline, values: Manifest
) -> None:
    clicks = on_volume("clicks")
    clicks.load(seed=6)
    clicks.kube.apply(clicks.manifest({"spark": {"image": "localhost:5000/missing/made-this:1"}}))
    said = clicks.wait_for_condition("Ready", "False", "ImagePullFailing")
    assert "made-this" in said["message"]
    repaired = time.time()
    clicks.change({"spark": {"image": values["job"]["image"]}})
    clicks.wait_for_commit(repaired, "image repaired")

    # the container runs out of memory: the kernel kills the JVM, and the job reports it
    (pod,) = [each for each in clicks.drivers() if each["status"]["phase"] == "Running"]
    offer_to_oom_killer(pod, "java")
    killed = clicks.attempt()
    with pytest.raises(AssertionError):  # the command ends with the container
        clicks.kube.execute(clicks.namespace, pod["metadata"]["name"], ["python", "-c", MEMORY_EATERS])
    clicks.wait("out of memory noticed", lambda: "OutOfMemory" in outline(clicks.get()))
    clicks.wait_for_commit_of(killed + 1, "out of memory")

    a_spec_with_a_mistake_leaves_the_driver_alone(clicks)
    a_spec_that_never_commits_gives_way_to_the_last_that_did(clicks)
    clicks.judge()


def a_spec_with_a_mistake_leaves_the_driver_alone(pipeline: Pipeline) -> None:
    """A Job finds it before the driver is stopped."""
    attempt = pipeline.attempt()
    # Only a driver that has proven its spec is protected, and it is ready before it has committed.
    pipeline.wait("spec proven", lambda: _proven_by(pipeline) == attempt)
    pipeline.wait_for_condition("Ready", "True")
    pipeline.change({"transform": {"sql": "SELECT nothing FROM source"}, "upgrade": {"probation": "60s"}})
    said = pipeline.wait_for_condition("Degraded", "True", "PreflightFailed")
    assert "nothing" in said["message"]
    assert pipeline.attempt() == attempt
    found = time.time()
    pipeline.wait_for_commit(found, "mistake found")
    pipeline.change({"transform": {"sql": None}})
    pipeline.wait_for_condition("Degraded", "False")
    assert pipeline.attempt() == attempt


def _proven_by(pipeline: Pipeline) -> int | None:
    """Number of the newest attempt that the operator has seen commit."""
    status = (pipeline.get() or {}).get("status") or {}
    return (status.get("upgrade") or {}).get("attempt")


def a_spec_that_never_commits_gives_way_to_the_last_that_did(pipeline: Pipeline) -> None:
    """Its check passes, but no node has room for its executors."""
    attempt = pipeline.attempt()
    pipeline.change({"spark": {"executor": {"memory": "900Gi"}}})
    pipeline.wait("spec changed -> its driver", lambda: pipeline.attempt() == attempt + 1)
    said = pipeline.wait_for_condition("Degraded", "True", "SpecNotProven")
    assert "NoExecutors" in said["message"]
    pipeline.wait_for_commit_of(attempt + 2, "not proven")
    pipeline.change({"spark": {"executor": {"memory": "512Mi"}}})
    pipeline.wait_for_condition("Degraded", "False")
    assert pipeline.attempt() == attempt + 2, "it runs with this spec already"


def test_a_spec_that_cannot_run_is_refused_or_stalls_with_advice(on_volume: NewPipeline) -> None:
    wrong = on_volume("wrong")
    with pytest.raises(AssertionError, match="exactly one of kafka, files, rate"):
        wrong.kube.apply(wrong.manifest({"source": {"rate": {"rowsPerSecond": 1}}}))
    wrong.load(seed=7)
    try:
        # the namespace has no room for its driver
        limit_range(wrong, {"max": {"memory": "256Mi"}})
        wrong.kube.apply(wrong.manifest({"transform": {"sql": "SELECT nothing FROM source"}}))
        said = wrong.wait_for_condition("Ready", "False", "CreationRefused")
        assert "maximum memory usage per Container is 256Mi" in said["message"]
        # another rule has room, and changes its pods
        limit_range(wrong, {"default": {"cpu": "2"}})
        # the schema accepts the spec, but Spark does not
        said = wrong.wait_for_condition("Stalled", "True", "BadSpec")
        assert "nothing" in said["message"]
        assert wrong.attempt() == 1
        (driver,) = wrong.drivers()
        assert driver["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "2"
    finally:
        wrong.kube.kubectl("delete", "limitrange", "sizes", "--namespace", wrong.namespace)
    repaired = time.time()
    wrong.change({"transform": {"sql": None}})
    wrong.wait_for_commit(repaired, "spec repaired")
    wrong.judge()


def limit_range(pipeline: Pipeline, limits: Manifest) -> None:
    """One rule for each container of the namespace."""
    metadata = {"name": "sizes", "namespace": pipeline.namespace}
    spec = {"limits": [{"type": "Container", **limits}]}
    pipeline.kube.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec})


def test_nothing_is_lost_with_the_checkpoint_the_operator_or_an_upgrade(
    on_volume: NewPipeline, cluster: Cluster, kube: Kube, values: Manifest
) -> None:
    trips = on_volume("trips")
    trips.load(seed=8)
    checkpoint = trips.table.with_name(f"{trips.table.name}_checkpoint")
    applied = time.time()
    trips.kube.apply(trips.manifest({"checkpoint": {"path": f"/tables/{checkpoint.name}"}}))
    trips.wait_for_commit(applied, "apply")
    assert checkpoint.exists()

    # the operator is killed together with the driver: the next operator finds what to do
    (operator,) = ready_operators(kube)
    kill_first_process(trips.drivers()[-1])
    kill_first_process(operator)
    shutil.rmtree(checkpoint, ignore_errors=True)
    trips.wait_for_commit_of(2, "driver and operator SIGKILL, checkpoint gone")
    trips.wait_for_condition("CheckpointHealthy", "True", "Rebuilt")

    # an upgrade of only the operator: the driver continues
    driver = trips.drivers()[-1]["metadata"]["uid"]
    before = {pod["metadata"]["name"] for pod in ready_operators(kube)}
    install(cluster, values, {"operator": {"podAnnotations": {"test": "upgrade"}}})
    after = wait_for(lambda: ready_operators(kube), within=60, description="an operator is ready")
    assert before.isdisjoint(pod["metadata"]["name"] for pod in after)
    upgraded = time.time()
    trips.wait_for_commit(upgraded, "upgrade")
    assert trips.drivers()[-1]["metadata"]["uid"] == driver
    trips.judge()


@pytest.fixture
def metadata_service(s3_server: S3Server, cluster: Cluster) -> Iterator[MetadataService]:
    with MetadataService(cluster.host_ip, s3_server.access_key, s3_server.secret_key) as service:
        yield service


# The service comes first: it must outlive the pipelines, whose removal rolls back what is open in the bucket.
def test_a_pipeline_waits_while_the_service_is_away_that_gives_its_machine_credentials(
    metadata_service: MetadataService, without_keys: str, on_s3: NewPipeline
) -> None:
    meters = on_s3("meters", without_keys)
    meters.load(seed=9)
    env = [{"name": "AWS_METADATA_ENDPOINT", "value": metadata_service.url}]
    applied = time.time()
    # One failure that counts would stall it. Tasks try four times, which takes a minute: it must not count as stuck.
    patient = {"maxInflightAge": "5m", "maxCommitLag": "5m"}
    meters.kube.apply(meters.manifest({"pod": {"env": env}, "restart": {"maxFailures": 1}, "health": patient}))
    meters.wait_for_commit(applied, "apply")
    metadata_service.is_away = True
    meters.wait("metadata service away -> noticed", lambda: meters.first_outcome() is not None)
    assert meters.first_outcome() == "StorageUnavailable", meters.state()
    metadata_service.is_away, back = False, time.time()
    meters.wait_for_commit(back, "metadata service back")
    assert condition(meters.get(), "Stalled").get("status") == "False"
    meters.judge()
