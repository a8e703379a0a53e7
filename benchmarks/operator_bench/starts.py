"""How long a pipeline takes on one node from its creation, and from the SIGKILL of its driver, to the next commit, and
where that time goes: `python -m operator_bench.starts`.

The images are on the node. Each pipeline is small, and alone on it.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bench.results_format import Case, Measured, save_cases
from devcluster.cluster import EmbeddedCluster
from devcluster.instance import instance
from devcluster.release import bring_images, install
from devservers.kafka import KafkaBroker
from support.cluster.faults import kill_first_process, resident_bytes
from support.cluster.kube import Kube
from support.cluster.pipeline import Pipeline
from support.cluster.processes import first_start

RESULTS: Final = Path(__file__).parents[2] / "benchmarks" / "results"
NAMESPACE: Final = "ingest"
DRIVER_ONLY: Final = {"spark": {"driver": {"memoryOverhead": "1Gi"}, "executor": {"instances": 0}}}
"""The smallest pipeline: all in one pod of 1.5 GiB."""
BUDGETS: Final = {"apply": ("the creation of the resource", 10.0), "kill": ("the SIGKILL of its driver", 12.0)}
LOGGED: Final = {
    "Spark's JVM runs": "driver: Spark's JVM runs",
    "Spark has started": "driver: Spark has started",
    "Python workers have started": "executor: Python workers have started",
    "written": "first micro-batch written",
}
"""Lines of the driver's log, and what they say."""


@dataclass
class Starts:
    """Times to the first commit, and of the stages before it; seconds."""

    took: list[float] = field(default_factory=list)
    stages: dict[str, list[float]] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)
    """Resident bytes of the driver's pod after that commit."""

    def note(self, pipeline: Pipeline, began: float) -> None:
        """Wait for a commit, and note what came before it."""
        pipeline.wait_for_commit(began, "it")
        self.took.append(pipeline.took["it -> commit"])
        self.memory.append(resident_bytes(pipeline.drivers()[-1]))
        for stage, at in _stages(pipeline):
            self.stages.setdefault(stage, []).append(at - began)

    def notes(self) -> list[str]:
        """The stages in their order, each with the median of the time since the begin."""
        medians = {stage: statistics.median(times) for stage, times in self.stages.items()}
        memory = f"memory of the driver's pod at most {max(self.memory) // 2**20} MiB"
        return [
            *(f"{medians[stage]:.2f} s: {stage}" for stage in sorted(medians, key=lambda each: medians[each])),
            memory,
        ]


def main() -> None:
    """Start a node, measure, stop it."""
    parser = argparse.ArgumentParser(prog="operator_bench.starts", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--name", default="local", help="of the results file")
    parser.add_argument("--driver-only", action="store_true", help="without executors")
    options = parser.parse_args()
    form, changes = ("driver-only-", DRIVER_ONLY) if options.driver_only else ("", {})
    found = {what: Starts() for what in BUDGETS}
    with _cluster() as cluster, KafkaBroker(host=cluster.host_ip, heap="256m") as broker:
        for number in range(options.repeats):
            _measure(cluster, broker, number, found, changes)
            print(number + 1, ", ".join(f"{name} {each.took[-1]:.1f} s" for name, each in found.items()), flush=True)
    cases = [_case(what, starts, form) for what, starts in found.items()]
    save_cases(RESULTS / f"operator-starts-{options.name}.json", cases)
    for case in cases:
        print(f"{case.case}: {case.ours.median:.3g} {case.unit} (budget {case.peer.median:g})")
        for note in case.notes:
            print(f"  {note}")


@contextmanager
def _cluster() -> Iterator[EmbeddedCluster]:
    cluster = EmbeddedCluster(instance("bench"))
    cluster.up()
    try:
        claim: Mapping[str, Any] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "tables", "namespace": NAMESPACE},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        Kube(cluster.kubeconfig).apply(namespace, dict(claim))
        values = bring_images(cluster).values()
        volumes = [{"name": "tables", "persistentVolumeClaim": {"claimName": "tables"}}]
        mounts = [{"name": "tables", "mountPath": "/tables"}]
        install(cluster, {**values, "job": {**values["job"], "volumes": volumes, "volumeMounts": mounts}})
        yield cluster
    finally:
        cluster.down()


def _measure(
    cluster: EmbeddedCluster,
    broker: KafkaBroker,
    number: int,
    found: Mapping[str, Starts],
    changes: Mapping[str, Any],
) -> None:
    kube = Kube(cluster.kubeconfig)
    volume = kube.kubectl("get", "pvc", "tables", "--namespace", NAMESPACE, "-o", "jsonpath={.spec.volumeName}")
    name = f"start-{number}"
    folder = f"{name}-{secrets.token_hex(3)}"
    table = cluster.instance.volumes / volume / folder
    pipeline = Pipeline(kube, broker, NAMESPACE, name, f"/tables/{folder}", table)
    pipeline.load(seed=number + 1)
    began = time.time()
    kube.create(pipeline.manifest(changes))
    found["apply"].note(pipeline, began)
    pipeline.wait_for_condition("Ready", "True")
    began = time.time()
    kill_first_process(pipeline.drivers()[-1])
    found["kill"].note(pipeline, began)
    pipeline.judge()
    pipeline.remove()


def _stages(pipeline: Pipeline) -> Iterator[tuple[str, float]]:
    driver = pipeline.drivers()[-1]
    for stage, pod, word in (
        ("driver: its process has started", driver, ""),
        ("driver: the JVM's process has started", driver, "java"),
        *(("executor: its process has started", each, "") for each in pipeline.executors()[-1:]),
    ):
        if (at := first_start(pod, word)) is not None:
            yield stage, at
    for line in pipeline.kube.logs(pipeline.namespace, driver["metadata"]["name"], 2000).splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        meaning = LOGGED.get(said.get("event", ""))
        if meaning is not None:
            yield meaning, datetime.fromisoformat(said["timestamp"]).timestamp()
        if said.get("event") == "committed":
            return


def _case(name: str, starts: Starts, form: str) -> Case:
    what, budget = BUDGETS[name]
    pipeline = "a small pipeline without executors" if form else "a small pipeline"
    return Case.of(
        case=f"operator-{form}{name}-to-commit",
        what=f"From {what} to the next commit: {pipeline} that is alone on a node.",
        unit="s",
        rows=1,
        ours=Measured.of("bucketingest-operator", starts.took),
        peer=Measured.of("budget", [budget] * len(starts.took)),
        versions={"python": sys.version.split()[0]},
        loads=os.getloadavg()[:1],
        notes=starts.notes(),
    )


if __name__ == "__main__":
    main()
