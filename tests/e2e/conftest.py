"""A cluster with the operator installed by Helm, and a broker and an S3 server that its pods reach: one per process.

`make test-e2e` runs these tests if a cluster is possible, and skips them with a clear message if not. With `CI` or
BUCKETINGEST_REQUIRE_CLUSTER=1 that is an error. The tests wait half of the time, so two processes run them at once,
each on a cluster of its own; on a user's cluster one process runs them.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from devcluster.cluster import REGISTRY_VARIABLE, Cluster, EmbeddedCluster, UsersCluster, choose
from devcluster.images.project import Image
from devcluster.instance import VARIABLE
from devcluster.node import machine
from devcluster.release import Images, bring_images, build_images, install
from devservers.kafka import KafkaBroker
from devservers.s3 import S3Server
from support.cluster.kube import Kube, Manifest, wait_for
from support.cluster.pipeline import Pipeline

HERE = Path(__file__).parent
INSTANCE = "e2e"
NAMESPACE = "ingest"
CLAIM = "tables"
TABLES = "/tables"
CREDENTIALS = "storage-credentials"
BUCKET = "lake"
BOUND_SECONDS = 60.0
LONGEST = ("test_pages", "test_monitoring", "test_troubles", "test_runs")
"""Files whose tests take longest. They come first, so that neither process waits long for the other at the end."""
TIMES = "times on the cluster"
"""Property of a test: the waiting times of a pipeline, for the summary."""


def pytest_xdist_auto_num_workers() -> int:
    """Processes of `--numprocesses auto`; 0, only this one, for a cluster that all would share."""
    return 0 if VARIABLE in os.environ or isinstance(_chosen(), UsersCluster) else 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder; the longest come first."""
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show how long things took, without a limit: a busy machine takes longer."""
    reports = [each for found in terminalreporter.stats.values() for each in found]
    properties = [pair for each in reports for pair in getattr(each, "user_properties", ())]
    lines = dict.fromkeys(str(line) for name, line in properties if name == TIMES)
    if lines:
        terminalreporter.section(TIMES)
        for line in lines:
            terminalreporter.line(line)


def _chosen() -> Cluster:
    """The cluster of this process: the user's only with BUCKETINGEST_REGISTRY, a KUBECONFIG alone is no permission."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    own = INSTANCE if worker is None else f"{INSTANCE}-{worker}"
    with pytest.MonkeyPatch.context() as patch:
        if REGISTRY_VARIABLE not in os.environ:
            patch.delenv("KUBECONFIG", raising=False)
        return choose(os.environ.get(VARIABLE) or own)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster: the user's, kind, or the embedded node, which is stopped afterwards unless it was up before."""
    chosen = _chosen()
    if isinstance(chosen, EmbeddedCluster) and (reason := machine.why_not()) is not None:
        message = f"NO CLUSTER TESTS: {reason}"
        if os.environ.get("CI") or os.environ.get("BUCKETINGEST_REQUIRE_CLUSTER"):
            pytest.fail(message)
        pytest.skip(message)
    was_up = isinstance(chosen, EmbeddedCluster) and chosen.instance.running() is not None
    chosen.up()
    yield chosen
    if not was_up and not os.environ.get("BUCKETINGEST_KEEP_CLUSTER"):
        chosen.down()


@pytest.fixture(scope="session")
def images(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Images:
    """Both images, where pods find them; the first of the processes builds them from the work tree."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    built = folder / "images.json"
    with (folder / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            built.write_text(json.dumps([asdict(image) for image in build_images()]))
    return bring_images(cluster, [Image(**image) for image in json.loads(built.read_text())])


@pytest.fixture(scope="session")
def kube(cluster: Cluster) -> Kube:
    """The cluster's API."""
    return Kube(cluster.kubeconfig)


@pytest.fixture(scope="session")
def kafka_broker(cluster: Cluster) -> Iterator[KafkaBroker]:
    """A broker that pods reach; each test has a topic of its own."""
    with KafkaBroker(host=cluster.host_ip, heap="256m", tls=True) as broker:
        yield broker


@pytest.fixture(scope="session")
def s3_server(cluster: Cluster) -> Iterator[S3Server]:
    """An S3 server that pods reach, with one bucket."""
    with S3Server(host=cluster.host_ip) as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(scope="session")
def values(images: Images, s3_server: S3Server) -> Manifest:
    """Values of the chart for a claim with tables, and for S3 with credentials in a Secret."""
    job = {
        **images.values()["job"],
        "grace": "20s",
        "env": {"AWS_ENDPOINT_URL": s3_server.endpoint, "AWS_REGION": s3_server.region, "AWS_ALLOW_HTTP": "true"},
        "envFromSecrets": [CREDENTIALS],
        "volumes": [{"name": "tables", "persistentVolumeClaim": {"claimName": CLAIM}}],
        "volumeMounts": [{"name": "tables", "mountPath": TABLES}],
    }
    return {**images.values(), "job": job}


@pytest.fixture(scope="session")
def credentials(s3_server: S3Server) -> Manifest:
    """The Secret with the jobs' credentials for the S3 server."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CREDENTIALS, "namespace": NAMESPACE},
        "stringData": {"AWS_ACCESS_KEY_ID": s3_server.access_key, "AWS_SECRET_ACCESS_KEY": s3_server.secret_key},
    }


@pytest.fixture(scope="session")
def namespace(cluster: Cluster, kube: Kube, credentials: Manifest) -> Iterator[str]:
    """A namespace with what jobs need. If the cluster stays, everything in it is deleted."""
    kube.apply(*_namespace(NAMESPACE), credentials)
    yield NAMESPACE
    if not isinstance(cluster, EmbeddedCluster):
        kube.kubectl("delete", "namespace", NAMESPACE)


@pytest.fixture(scope="session")
def release(cluster: Cluster, namespace: str, values: Manifest) -> Cluster:
    """The installed chart, and the namespace of its jobs."""
    assert namespace
    install(cluster, values)
    return cluster


@pytest.fixture
def without_keys(kube: Kube, cluster: Cluster, release: Cluster) -> Iterator[str]:
    """A namespace whose jobs get no keys for the S3 server."""
    assert release is cluster
    name = "without-keys"
    kube.apply(*_namespace(name))
    yield name
    kube.kubectl("delete", "namespace", name, "--wait=false")


def _namespace(name: str) -> tuple[Manifest, Manifest]:
    """A namespace with the claim that all jobs mount."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": name},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, claim


@pytest.fixture(scope="session")
def tables(cluster: Cluster, kube: Kube, namespace: str) -> Path:
    """The folder of the claim's volume on this machine."""
    if not isinstance(cluster, EmbeddedCluster):
        pytest.skip("only the embedded node has volumes that this machine can read")
    asked = ("get", "pvc", CLAIM, "--namespace", namespace, "--output", "jsonpath={.spec.volumeName}")
    return cluster.instance.volumes / wait_for(
        lambda: kube.kubectl(*asked), within=BOUND_SECONDS, description="a volume for the claim"
    )


NewPipeline = Callable[..., Pipeline]


@pytest.fixture
def on_volume(
    kube: Kube, kafka_broker: KafkaBroker, tables: Path, release: Cluster, request: pytest.FixtureRequest
) -> Iterator[NewPipeline]:
    """Makes pipelines with tables on the volume; they are removed after the test."""
    made: list[Pipeline] = []
    run = secrets.token_hex(3)  # a cluster that is kept has tables of earlier runs

    def make(name: str, table: str | None = None) -> Pipeline:
        folder = f"{table or name}-{run}"
        pipeline = Pipeline(kube, kafka_broker, NAMESPACE, name, f"{TABLES}/{folder}", tables / folder)
        made.append(pipeline)
        return pipeline

    yield make
    _remove(made, request)


@pytest.fixture
def on_s3(
    kube: Kube, kafka_broker: KafkaBroker, s3_server: S3Server, release: Cluster, request: pytest.FixtureRequest
) -> Iterator[NewPipeline]:
    """Makes pipelines with tables in the bucket, which the S3 server keeps as a folder."""
    made: list[Pipeline] = []

    def make(name: str, namespace: str = NAMESPACE) -> Pipeline:
        folder = s3_server.folder / "buckets" / BUCKET / name
        pipeline = Pipeline(kube, kafka_broker, namespace, name, f"s3://{BUCKET}/{name}", folder)
        made.append(pipeline)
        return pipeline

    yield make
    _remove(made, request)


def _remove(pipelines: Sequence[Pipeline], request: pytest.FixtureRequest) -> None:
    for pipeline in pipelines:
        if pipeline.took:
            took = ", ".join(f"{what} {took} s" for what, took in pipeline.took.items())
            request.node.user_properties.append((TIMES, f"{pipeline.name}: {took}"))
        pipeline.remove()
