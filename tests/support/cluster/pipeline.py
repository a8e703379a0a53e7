"""One pipeline under test: its topic under load, its BucketIngest, its table on this machine, the verdict."""

from __future__ import annotations

import copy
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devservers.kafka import KafkaBroker
from soak.judge.judgement import judge
from soak.judge.watch import TableWatch
from soak.traffic import DDL, PARTITIONS, Traffic
from support.cluster.kube import Kube, Manifest, condition, outline, wait_for
from support.oracle import hudi_rs

ROWS_PER_SECOND = 200
START_SECONDS = 150.0
"""Time from one state of a pipeline to the next, on a busy machine."""
_QUICK = (
    "-Xms512m -XX:MetaspaceSize=256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote -XX:+ExitOnOutOfMemoryError"
)
UID_LABEL, ROLE_LABEL, ATTEMPT_LABEL = "bucketingest.dev/uid", "bucketingest.dev/role", "bucketingest.dev/attempt"


@dataclass
class Pipeline:
    """A BucketIngest with its own Kafka topic.

    Attributes:
        table_url: As pods see the table.
        table: The same folder, as this machine sees it.
        took: Measured waiting times in seconds, to be printed.
    """

    kube: Kube
    broker: KafkaBroker
    namespace: str
    name: str
    table_url: str
    table: Path
    took: dict[str, float] = field(default_factory=dict)
    _number: str = field(default_factory=lambda: secrets.token_hex(3))
    _traffic: Traffic | None = None

    @property
    def topic(self) -> str:
        """The topic it reads: unique, even if another test has a pipeline of this name."""
        return f"{self.name}-{self._number}"

    @property
    def watch(self) -> TableWatch:
        """The table's timeline."""
        return TableWatch(self.table, f"{self.namespace}/{self.name}")

    def manifest(self, changes: Mapping[str, Any] | None = None) -> Manifest:
        """The resource, small and quick; `changes` are merged into its spec."""
        spec: Manifest = {
            "source": {"kafka": {"bootstrapServers": self.broker.bootstrap_servers, "topics": [self.topic]}},
            "format": {"type": "json", "schema": DDL},
            "table": {
                "path": self.table_url,
                "recordKey": ["id"],
                "partitionBy": ["region"],
                "orderingField": "ts",
                "deleteWhen": "deleted",
                "index": {"buckets": 2},
                "writeTasks": 1,
                # A killed driver holds the table for so long.
                "lock": {"leaseValidity": "10s", "waitTimeout": "60s"},
                "memoryPerTask": "64Mi",
            },
            # Each micro-batch costs a second of a core, and rows come all the time: the pods that start need it more.
            "commit": {"interval": "2s", "trigger": "2s"},
            "health": {"maxCommitLag": "60s", "maxInflightAge": "60s"},
            "spark": {
                "driver": {"cores": "200m", "memory": "512Mi"},
                "executor": {"instances": 1, "cores": "1", "memory": "512Mi"},
                "conf": {
                    "spark.kubernetes.executor.request.cores": "200m",
                    # These JVMs are killed soon.
                    "spark.driver.extraJavaOptions": _QUICK,
                    "spark.executor.extraJavaOptions": _QUICK,
                },
            },
        }
        return {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"namespace": self.namespace, "name": self.name},
            "spec": merged(spec, changes or {}),
        }

    def load(self, seed: int = 1, rows_per_second: int = ROWS_PER_SECOND) -> None:
        """Create the topic, and send rows into it until the verdict; later calls only change how many."""
        if self._traffic is None:
            self.broker.create_topic(self.topic, partitions=PARTITIONS)
            self._traffic = Traffic(self.broker.bootstrap_servers, seed, rows_per_second, self.topic)
            self._traffic.start()
        self._traffic.rows_per_second = rows_per_second

    def get(self) -> Manifest | None:
        """The resource as it is now."""
        return self.kube.resource(self.namespace, self.name)

    def change(self, spec: Mapping[str, Any]) -> None:
        """Change the spec by a merge patch."""
        self.kube.patch(self.namespace, self.name, {"spec": spec})

    def drivers(self) -> list[Manifest]:
        """Driver pods of the resource as it is now, the oldest first."""
        return self._pods("driver")

    def executors(self) -> list[Manifest]:
        """Executor pods that run, the oldest first."""
        return [pod for pod in self._pods("executor") if pod["status"]["phase"] == "Running"]

    def mergers(self) -> list[Manifest]:
        """Pods of a compaction that run, the oldest first."""
        return [pod for pod in self._pods("compaction") if pod["status"]["phase"] == "Running"]

    def attempt(self) -> int:
        """Number of the newest attempt."""
        return int(((self.get() or {}).get("status") or {}).get("attempt") or 0)

    def first_outcome(self) -> str | None:
        """How the first attempt ended; None: it has not."""
        attempts = ((self.get() or {}).get("status") or {}).get("attempts") or [{}]
        outcome = attempts[0].get("outcome")
        return None if outcome is None else str(outcome)

    def wait(self, what: str, true: Callable[[], Any], *, within: float = START_SECONDS) -> Any:
        """Wait for it, and note how long it took. Raises AssertionError with the state."""
        started = time.monotonic()
        answer = wait_for(true, within=within, description=f"{self.name}: {what}", state=self.state)
        self.took[what] = round(time.monotonic() - started, 1)
        return answer

    def wait_for_commit(self, after: float, why: str, *, within: float = START_SECONDS) -> None:
        """Wait for a commit after a time (Unix seconds), and note how long it took."""
        wait_for(
            lambda: self.watch.first_after(after), within=within, description=f"a commit after {why}", state=self.state
        )
        seconds = (self.watch.first_after(after) or after) - after
        self.took[f"{why} -> commit"] = round(seconds, 1)

    def wait_for_commit_of(self, attempt: int, why: str) -> None:
        """Wait for an attempt, and for a commit after it began: what was killed may have committed a moment before."""
        self.wait(f"{why} -> attempt {attempt}", lambda: self.attempt() >= attempt)
        self.wait_for_commit(time.time(), f"attempt {attempt}")
        assert self.attempt() == attempt, self.state()

    def wait_for_condition(
        self, kind: str, value: str, reason: str = "", *, within: float = START_SECONDS
    ) -> dict[str, str]:
        """Wait until a condition has a value, and a reason if one is given."""

        def so() -> dict[str, str] | None:
            found = condition(self.get(), kind)
            return found if found.get("status") == value and reason in {"", found.get("reason")} else None

        return dict(self.wait(f"{kind}={value} {reason}".rstrip(), so, within=within))

    def judge(self) -> None:
        """Stop sending, wait until all rows are in the table, and fail unless every row is there exactly once."""
        assert self._traffic is not None, "loaded"
        self._traffic.finish()
        ends = self._traffic.ends
        self.wait("all rows committed", lambda: self.watch.ends() == ends)
        found = judge(self.watch, self._traffic.expected(), ends, {"hudi-rs": lambda: hudi_rs.snapshot(self.table)})
        assert not found.wrong, "\n".join([*found.wrong, self.state()])
        self._traffic = None

    def remove(self) -> None:
        """Delete the resource, and wait until it and its pods are gone."""
        uid = (self.get() or {}).get("metadata", {}).get("uid")
        if uid is None:
            return
        self.kube.delete(self.namespace, self.name)
        self.wait("resource gone", lambda: self.get() is None)
        self.wait("pods gone", lambda: not self.kube.pods(self.namespace, {UID_LABEL: uid}))

    def state(self) -> str:
        """The state that explains a failure."""
        resource = self.get()
        lines = [outline(resource)]
        lines += [
            f"{each['type']} {each['reason']}: {each['message']}"
            for each in self.kube.events(self.namespace, self.name)
        ]
        if resource is not None:
            for pod in (
                self._pods("driver")[-2:]
                + self._pods("executor")[-1:]
                + self._pods("rollback")[-1:]
                + self._pods("compaction")[-2:]
            ):
                name = pod["metadata"]["name"]
                lines.append(f"--- {name}: {pod['status'].get('phase')} {pod['status'].get('containerStatuses')}")
                lines.append(self.kube.logs(self.namespace, name, lines=25))
        return "\n".join(lines)

    def _pods(self, role: str) -> list[Manifest]:
        uid = (self.get() or {}).get("metadata", {}).get("uid")
        return [] if uid is None else self.kube.pods(self.namespace, {UID_LABEL: uid, ROLE_LABEL: role})


def merged(base: Manifest, changes: Mapping[str, Any]) -> Manifest:
    """A copy of nested dictionaries with changes merged in."""
    result = copy.deepcopy(base)
    for name, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else copy.deepcopy(value)
    return result
