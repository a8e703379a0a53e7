"""`helm upgrade` from an older version, and back, with ten pipelines that run: no driver restarts for it.

It takes minutes, and needs the version to upgrade from: `make test-upgrade FROM=COMMIT`. Two of the pipelines are real.
Of the others only the driver's process is a small one, which answers as a job that commits: the operator cannot tell.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import Cluster
from devcluster.images.project import builder
from devcluster.release import NAMESPACE as OPERATORS
from devcluster.release import RELEASE, Images, helm, install
from devservers.locations import PROJECT_ROOT
from support.cluster.kube import Kube, Manifest, condition, outline, wait_for
from support.cluster.pipeline import UID_LABEL, merged
from support.operator.observations import report

FROM = os.environ.get("BUCKETINGEST_UPGRADE_FROM")
pytestmark = pytest.mark.skipif(not FROM, reason="minutes: make test-upgrade FROM=COMMIT")

NAMESPACE = "ingest"
REAL, ALL = 2, 10
NAMES = [f"pipeline-{number}" for number in range(ALL)]
CRD = Path("crds") / "bucketingests.yaml"
# In the operator's image there is no Spark. In the job's image the command is what it always is.
COMMAND = """#!/opt/bucketingest/bin/python
import importlib.util, os, sys

if importlib.util.find_spec("pyspark"):
    start = "from bucketingest.cli.main import main; main()"
    os.execv(sys.executable, [sys.executable, "-c", start, *sys.argv[1:]])

import signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import yaml

name = yaml.safe_load(open(sys.argv[2]))["metadata"]["name"]
body = open("/light/report.json").read().replace("NAME", name).encode()

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
ThreadingHTTPServer(("0.0.0.0", 9808), Handler).serve_forever()
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The tree of the version to upgrade from."""
    tree = tmp_path / "old"
    tree.mkdir()
    archive = subprocess.run(["git", "archive", str(FROM)], cwd=PROJECT_ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "--extract", "--directory", str(tree)], input=archive.stdout, check=True)
    return tree


@pytest.fixture
def fleet(kube: Kube, cluster: Cluster) -> Iterator[Fleet]:
    """A namespace for the pipelines; it goes with the cluster."""
    light = {"bucketingest": COMMAND, "report.json": _report()}
    metadata = {"namespace": NAMESPACE, "name": "light"}
    kube.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": light},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "tables", "namespace": NAMESPACE},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    )
    yield Fleet(kube)
    for name in NAMES:
        kube.kubectl("delete", "bi", name, "--namespace", NAMESPACE, "--ignore-not-found", "--wait=false")

    def left() -> bool:
        return bool(kube.pods(NAMESPACE, {}) or any(kube.resource(NAMESPACE, name) for name in NAMES))

    wait_for(lambda: not left(), within=180, description="nothing is left")
    helm(cluster, "uninstall", RELEASE, "--wait")


def _report() -> str:
    found = report(pipeline=f"{NAMESPACE}/NAME", namespace=NAMESPACE, name="NAME", idle=True, inflight=None)
    return found.model_dump_json(by_alias=True)


class Fleet:
    """Ten pipelines."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._edits = 0

    def get(self, name: str) -> Manifest:
        found = self._kube.resource(NAMESPACE, name)
        assert found is not None
        return found

    def start(self, job_image: str) -> None:
        """Apply all, and wait until each is ready, the real ones after their first commit."""
        for number, name in enumerate(NAMES):
            small = {"spark": {"image": job_image}} if number < REAL else {"commit": {"trigger": "2s"}}
            self._kube.create(merged(_manifest(name), {"spec": small}))
        wait_for(self._all_ready, within=300, description="all are ready", state=self.state)

    def _all_ready(self) -> bool:
        ready = [condition(self.get(name), "Ready").get("status") == "True" for name in NAMES]
        commits = ["lastCommit" in (self.get(name).get("status") or {}) for name in NAMES[:REAL]]
        return all(ready) and all(commits)

    def drivers(self) -> dict[str, list[str]]:
        """UIDs of the driver pods, by pipeline."""
        pods = self._kube.pods(NAMESPACE, {"bucketingest.dev/role": "driver"})
        found = {name: str(self.get(name)["metadata"]["uid"]) for name in NAMES}
        return {
            name: [pod["metadata"]["uid"] for pod in pods if pod["metadata"]["labels"][UID_LABEL] == uid]
            for name, uid in found.items()
        }

    def are_looked_at(self) -> None:
        """Edit what needs no restart, and wait until the operator has taken it over for each pipeline."""
        self._edits += 1
        generations = {}
        for name in NAMES:
            self._kube.patch(NAMESPACE, name, {"spec": {"health": {"maxCommitLag": f"{300 + self._edits}s"}}})
            generations[name] = self.get(name)["metadata"]["generation"]
        wait_for(
            lambda: all(self.get(name)["status"].get("observedGeneration") == generations[name] for name in NAMES),
            within=90,
            description="the operator has looked at all",
            state=self.state,
        )

    def commits(self) -> list[str]:
        """The last instants of the real pipelines."""
        return [self.get(name)["status"]["lastCommit"]["instant"] for name in NAMES[:REAL]]

    def state(self) -> str:
        lines = [f"{name}: {outline(self.get(name))}" for name in NAMES]
        for where in (NAMESPACE, OPERATORS):
            pods = [pod["metadata"]["name"] for pod in self._kube.pods(where, {})][-3:]
            lines += [self._kube.logs(where, pod, 20) for pod in pods]
        return "\n".join(lines)


def _manifest(name: str) -> Manifest:
    small = {"cores": "100m", "memory": "512Mi"}
    spec: dict[str, Any] = {
        "source": {"rate": {"rowsPerSecond": 20}},
        "table": {"path": f"/tables/{name}", "recordKey": ["value"], "index": {"buckets": 1}, "writeTasks": 1},
        "commit": {"interval": "5s", "trigger": "2s"},
        "services": {"mode": "off"},  # their memory, ten times, is more than a node of this size has
        "spark": {
            "driver": small,
            "executor": {"instances": 1, "cores": "1", "memory": "512Mi"},
            "conf": {"spark.kubernetes.executor.request.cores": "100m"},
        },
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": metadata, "spec": spec}


def test_no_driver_restarts_for_an_upgrade_and_none_for_the_way_back(
    cluster: Cluster, kube: Kube, images: Images, old: Path, fleet: Fleet
) -> None:
    old_image = cluster.push(builder().build("operator", old))
    install(cluster, _values(old_image, old_image), chart=old / "charts" / "bucketingest")
    fleet.start(images.job)
    before = fleet.drivers()
    assert [len(pods) for pods in before.values()] == [1] * ALL

    # as docs/upgrade.md says: the definition first
    _define(kube, PROJECT_ROOT)
    fleet.are_looked_at()
    assert fleet.drivers() == before, fleet.state()

    operator = {"operator": _operator(images.operator)}
    file = old / "operator.json"
    file.write_text(json.dumps(operator))
    chart = str(PROJECT_ROOT / "charts" / "bucketingest")
    waits = ["--wait", "--timeout", "3m"]
    helm(cluster, "upgrade", RELEASE, chart, "--reset-then-reuse-values", "--values", str(file), *waits)
    fleet.are_looked_at()
    assert fleet.drivers() == before, fleet.state()

    # this version with the older definition, as where another tool brings definitions
    _define(kube, old)
    fleet.are_looked_at()
    assert fleet.drivers() == before, fleet.state()
    _define(kube, PROJECT_ROOT)

    # it heals what an older one has started
    lost = NAMES[-1]
    kube.kubectl("delete", "pod", f"--selector={UID_LABEL}={fleet.get(lost)['metadata']['uid']}", "-n", NAMESPACE)
    wait_for(
        lambda: (
            condition(fleet.get(lost), "Ready").get("status") == "True" and fleet.get(lost)["status"]["attempt"] == 2
        ),
        within=90,
        description="the lost driver is replaced",
        state=fleet.state,
    )
    before[lost] = fleet.drivers()[lost]

    # back: the older version with its own definition, then with the newer one
    helm(cluster, "rollback", RELEASE, "1", *waits)
    fleet.are_looked_at()
    assert fleet.drivers() == before, fleet.state()
    _define(kube, PROJECT_ROOT)
    fleet.are_looked_at()
    assert fleet.drivers() == before, fleet.state()

    then = fleet.commits()
    wait_for(
        lambda: all(now > earlier for now, earlier in zip(fleet.commits(), then, strict=True)),
        within=60,
        description="commits go on",
        state=fleet.state,
    )
    assert fleet.drivers() == before


def _define(kube: Kube, tree: Path) -> None:
    """Helm may have written the definition before."""
    kube.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(tree / CRD))


def _operator(image: str) -> Manifest:
    repository, _, tag = image.rpartition(":")
    return {"image": {"repository": repository, "tag": tag}}


def _values(operator: str, job: str) -> Manifest:
    light = {"name": "light", "configMap": {"name": "light", "defaultMode": 0o555}}
    mounts = [
        {"name": "tables", "mountPath": "/tables"},
        {"name": "light", "mountPath": "/light"},
        {"name": "light", "mountPath": "/opt/bucketingest/bin/bucketingest", "subPath": "bucketingest"},
    ]
    volumes = [{"name": "tables", "persistentVolumeClaim": {"claimName": "tables"}}, light]
    return {
        "operator": _operator(operator),
        "job": {"image": job, "grace": "20s", "volumes": volumes, "volumeMounts": mounts},
    }
