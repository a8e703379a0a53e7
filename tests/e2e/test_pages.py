"""Runs every command that README and docs show for a cluster, page by page."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from devcluster.binaries import find_tool
from devcluster.cluster import Cluster
from devcluster.outside import outside_service
from devcluster.release import RELEASE, Images, helm, install
from devservers.kafka import KafkaBroker
from devservers.produce import produce
from devservers.s3 import S3Server
from support.cluster.kube import Kube, Manifest, outline, wait_for
from support.oracle import hudi_rs
from support.pages import ROOT, Command, typed

PAGES = (
    "charts/bucketingest/README.md",
    "docs/quickstart-cluster.md",
    "README.md",
    "docs/migration.md",
    "docs/diagnose.md",
    "docs/monitoring.md",
    "docs/upgrade.md",
    "docs/reference.md",
)
NAMESPACE = "ingest"  # that of the examples
ON_A_LAPTOP = {"demo", "query", "validate", "run", "inspect", "rollback", "services", "compact", "clean", "archive"}
"""Commands that need no cluster; the tests of the laptop's pages run them."""
_STRIMZI = "needs Strimzi, which the page says is not run here"
NOT_TYPED = {
    "helm install --take-ownership": "only an option of the command shown above it",
    "kubectl apply -f examples/cluster/strimzi-connector.yaml": _STRIMZI,
    "kubectl wait --for=condition=Ready kafkauser/lake --namespace kafka --timeout=120s": _STRIMZI,
    "kubectl get secret $secret --namespace kafka -o json": _STRIMZI,
    "kubectl apply -f examples/cluster/kafka-mirror.yaml": _STRIMZI,
}
"""Beginnings of lines that are not typed, each with the reason."""
ROWS = 500
COMMITTED_SECONDS = 180.0
COMMAND_SECONDS = 180
MONITORS = ("podmonitors", "prometheusrules")


@dataclass
class Terminal:
    """A shell in a folder like a checkout, with the cluster's tools on its path."""

    folder: Path
    environment: dict[str, str]
    images: Images
    credentials: dict[str, str]

    def type(self, line: str) -> None:
        """Run a command line, which must succeed. One that runs forever must print something, and gets Ctrl-C."""
        line = self._completed(line.partition(" #")[0].rstrip())
        if " --watch" in line or re.search(r"bucketingest top(?!.*--once)", line):
            self._look(line)
            return
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def _look(self, line: str) -> None:
        reader, writer = pty.openpty()
        process = subprocess.Popen(
            # Tests may run in the background, where they and their child processes ignore Ctrl-C.
            ["env", "--default-signal=INT", "bash", "-c", f"exec {line}"],
            cwd=self.folder,
            env={**self.environment, "TERM": "xterm"},
            stdout=writer,
            stderr=writer,
            start_new_session=True,
        )
        try:
            os.close(writer)
            shown, _, _ = select.select([reader], [], [], COMMAND_SECONDS)
            text = os.read(reader, 65536) if shown else b""
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(COMMAND_SECONDS)
            if select.select([reader], [], [], 0)[0]:
                with suppress(OSError):  # nothing is left, and nobody writes any more
                    text += os.read(reader, 65536)
        finally:
            process.kill()
            process.wait()
            os.close(reader)
        assert text.strip(), line
        if code == 1:  # kubectl that gets Ctrl-C between its list and its watch
            assert b"rror" not in text, f"{line}\n{text.decode(errors='replace')}"
        else:
            assert code in {0, 128 + signal.SIGINT, -signal.SIGINT}, f"{line}\n{text.decode(errors='replace')}"

    def _completed(self, line: str) -> str:
        """The line with what the pages leave out: names of images, credentials."""
        if line.startswith("helm install "):
            repository, _, tag = self.images.operator.rpartition(":")
            line += f" --set operator.image.repository={repository} --set operator.image.tag={tag}"
            line += f" --set job.image={self.images.job} --wait"
        if line.startswith("kubectl create secret "):
            line = re.sub(r" --from-literal=\S+", "", line)
            line += "".join(f" --from-literal={name}={value}" for name, value in self.credentials.items())
        return line


@pytest.fixture
def terminal(cluster: Cluster, images: Images, s3_server: S3Server, tmp_path: Path) -> Terminal:
    """The terminal of a user who has cloned the project and activated its environment."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("kubectl", "helm"):
        (programs / name).symlink_to(find_tool(name))
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("charts", "crds", "examples"):
        (folder / name).symlink_to(ROOT / name)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    credentials = s3_server.environment
    environment = {**os.environ, **credentials, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)}
    return Terminal(folder, environment, images, credentials)


@pytest.fixture
def places(tables: Path, s3_server: S3Server) -> dict[str, Path]:
    """The tables of the examples on this machine."""
    return {"orders": tables / "orders", "orders-s3": s3_server.folder / "buckets" / "lake" / "orders"}


@pytest.fixture
def nothing_installed(
    cluster: Cluster, kube: Kube, credentials: Manifest, values: Manifest, tables: Path
) -> Iterator[None]:
    """A cluster without the release, and without the pages' objects. Afterwards with that of all tests."""
    helm(cluster, "uninstall", RELEASE, "--ignore-not-found", "--wait", "--no-hooks")
    kube.kubectl("delete", "secret", credentials["metadata"]["name"], "--namespace", NAMESPACE)
    shutil.rmtree(tables / "orders", ignore_errors=True)
    yield
    kube.kubectl("delete", "secret", credentials["metadata"]["name"], "--namespace", NAMESPACE, "--ignore-not-found")
    kube.apply(credentials)
    install(cluster, values)
    for name in ("orders", "orders-s3"):
        kube.kubectl("delete", "bucketingest", name, "--namespace", NAMESPACE, "--ignore-not-found")


@pytest.fixture
def orders(cluster: Cluster, kube: Kube, kafka_broker: KafkaBroker) -> Callable[[], int]:
    """The broker `kafka:9092` of the namespace. A call sends new orders; returns their total number."""
    kafka_broker.create_topic("orders", partitions=2)
    host, _, port = kafka_broker.bootstrap_servers.partition(":")
    kube.apply(*outside_service("kafka", NAMESPACE, 9092, host_ip=host, host_port=int(port)))
    sent = 0

    def send() -> int:
        nonlocal sent
        messages = [order(number) for number in range(sent, sent + ROWS)]
        sent += produce(kafka_broker.bootstrap_servers, "orders", messages)
        return sent

    return send


def order(number: int) -> tuple[bytes, bytes]:
    key = f"order-{number:05d}"
    value = {
        "order_id": key,
        "amount": "12.50",
        "updated_at": "2026-01-02T03:04:05Z",
        "region": ("north", "south")[number % 2],
        "deleted": False,
    }
    return key.encode(), json.dumps(value).encode()


@pytest.fixture
def monitoring_definitions(kube: Kube) -> None:
    """The kinds of the Prometheus operator, without their schemas."""
    kube.apply(*(definition(plural) for plural in MONITORS))


def definition(plural: str) -> Manifest:
    kind = {"podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"}[plural]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


def for_a_cluster(command: Command) -> bool:
    local = command.program == "bucketingest" and command.words[0] in ON_A_LAPTOP
    is_typed = not command.text.strip().startswith(tuple(NOT_TYPED))
    return is_typed and (not local or "s3://" in command.text)


@pytest.mark.usefixtures("nothing_installed", "monitoring_definitions")
def test_every_command_that_the_pages_show_works_on_a_cluster(
    terminal: Terminal, kube: Kube, cluster: Cluster, places: dict[str, Path], orders: Callable[[], int]
) -> None:
    sent = orders()

    def until_all_is_in(name: str) -> None:
        wait_for(
            lambda: rows_of(places[name]) == sent,
            within=COMMITTED_SECONDS,
            description=f"{sent} rows of {name}",
            state=lambda: outline(kube.resource(NAMESPACE, name)),
        )

    installed = False
    undo = []
    for page in PAGES:
        for command in filter(for_a_cluster, typed(ROOT / page, "kubectl", "helm", "bucketingest")):
            line = command.text
            if line.startswith("helm install "):
                if installed:
                    # The resources of the page before stay: its operator is followed by that of this one.
                    helm(cluster, "uninstall", RELEASE, "--wait", "--no-hooks")
                installed = True
            terminal.type(line)
            if "examples/cluster/kafka-to-volume.yaml" in line:
                until_all_is_in("orders")
            elif "examples/cluster/kafka-to-s3.yaml" in line:
                until_all_is_in("orders-s3")
                kube.delete(NAMESPACE, "orders-s3")  # the pages are done with it; two pipelines are twice as slow
            elif line.startswith("kubectl delete pod "):
                sent = orders()
                until_all_is_in("orders")
            elif "/pause=true" in line:  # at the end: meanwhile no restart that pages ask for costs a driver's start
                undo.append(line.replace("/pause=true", "/pause-"))
    assert installed
    assert undo
    for line in undo:
        terminal.type(line)


def rows_of(table: Path) -> int:
    """The number of rows by hudi-rs; 0 while the table is being created."""
    if not table.exists():
        return 0
    try:
        return hudi_rs.snapshot(table).num_rows
    except hudi_rs.HudiRsError:
        return 0
