"""`make demo-cluster`: install the operator, apply an example, kill its driver, and watch how it heals."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from devcluster.cluster import Cluster, EmbeddedCluster, choose
from devcluster.errors import ClusterError
from devcluster.outside import outside_service
from devcluster.release import bring_images, install
from devservers.kafka import KafkaBroker
from devservers.locations import PROJECT_ROOT, MissingDependencyError
from devservers.process import ServerError
from devservers.produce import produce

EXAMPLES: Final = PROJECT_ROOT / "examples" / "cluster"
NAMESPACE: Final = "ingest"
NAME: Final = "orders"
TOPIC: Final = "orders"
ROWS_PER_SECOND: Final = 500
COMMITS_SHOWN: Final = 3
PATIENCE_SECONDS: Final = 240.0
_BOLD, _PLAIN = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")


def main() -> int:
    """Run the demo; returns the exit code."""
    cluster = choose(os.environ.get("BUCKETINGEST_CLUSTER") or "demo")
    ours = isinstance(cluster, EmbeddedCluster) and cluster.instance.running() is None
    try:
        _show(cluster)
    except (ClusterError, MissingDependencyError, ServerError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if ours:
            cluster.down()
    return 0


def _show(cluster: Cluster) -> None:
    _title("A cluster, and the images of job and operator (the first time takes minutes)")
    cluster.up()
    images = bring_images(cluster)
    _title("helm install, with examples/cluster/values.yaml")
    cluster.kubectl("apply", "-f", str(EXAMPLES / "namespace.yaml"))
    volumes = {
        "volumes": [{"name": "tables", "persistentVolumeClaim": {"claimName": "tables"}}],
        "volumeMounts": [{"name": "tables", "mountPath": "/tables"}],
    }
    install(cluster, images.values(), {"job": volumes})
    _title(f"A Kafka broker, and {ROWS_PER_SECOND} orders per second into its topic {TOPIC}")
    with KafkaBroker(host=cluster.host_ip) as broker:
        broker.create_topic(TOPIC, partitions=2)
        host, port = broker.bootstrap_servers.split(":")
        service = outside_service("kafka", NAMESPACE, 9092, host_ip=host, host_port=int(port))
        cluster.kubectl("apply", "-f", "-", stdin="---\n".join(json.dumps(each) + "\n" for each in service))
        over = threading.Event()
        orders = threading.Thread(target=_send, args=(broker.bootstrap_servers, over), daemon=True)
        orders.start()
        try:
            _watch_it_heal(cluster)
        finally:
            over.set()
            orders.join()
            cluster.kubectl("delete", "bucketingest", NAME, "--namespace", NAMESPACE, "--timeout", "120s")


def _watch_it_heal(cluster: Cluster) -> None:
    example = EXAMPLES / "kafka-to-volume.yaml"
    _title(f"kubectl apply -f {example.relative_to(PROJECT_ROOT)}")
    began = time.monotonic()
    cluster.kubectl("apply", "-f", str(example))
    view = _View(cluster)
    view.until_commits(COMMITS_SHOWN)
    _line(f"{COMMITS_SHOWN} commits, {time.monotonic() - began:.0f} s after the apply")
    driver = str(view.status["attempts"][-1]["pod"])
    _title(f"kubectl delete pod {driver} --now: the driver is killed in the middle of its work")
    killed = time.monotonic()
    cluster.kubectl("delete", "pod", driver, "--now", "--namespace", NAMESPACE, "--wait=false")
    attempt = int(view.status["attempt"])
    view.until("another attempt", lambda: int(view.status.get("attempt") or 0) > attempt)
    view.until_commits(1)
    _line(f"healed: the next commit came {time.monotonic() - killed:.0f} s after the kill")
    view.until_commits(1)
    _title("kubectl get events: what the operator did, and why")
    listing = ["get", "events", "--namespace", NAMESPACE, "--field-selector", f"involvedObject.name={NAME}"]
    columns = "custom-columns=TIME:.lastTimestamp,TYPE:.type,REASON:.reason,MESSAGE:.message"
    _line(cluster.kubectl(*listing, "--output", columns).rstrip())


class _View:
    """The resource's status, printed whenever it has changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._shown = ""
        self.status: dict[str, Any] = {}

    def until_commits(self, count: int) -> None:
        """Until so many further instants were committed."""
        seen: set[str] = {self._instant()}

        def enough() -> bool:
            seen.add(self._instant())
            return len(seen) > count

        self.until(f"{count} commits", enough)

    def until(self, what: str, true: Any) -> None:
        """Look again and again. Raises ClusterError when it takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        self._look()
        while not true():
            if time.monotonic() > deadline:
                raise ClusterError(f"not within {PATIENCE_SECONDS:g} s: {what}; {json.dumps(self.status, indent=1)}")
            time.sleep(0.5)
            self._look()

    def _instant(self) -> str:
        return str((self.status.get("lastCommit") or {}).get("instant") or "")

    def _look(self) -> None:
        found = self._cluster.kubectl("get", "bucketingest", NAME, "--namespace", NAMESPACE, "--output", "json")
        self.status = json.loads(found).get("status") or {}
        commit = self.status.get("lastCommit") or {}
        ready: dict[str, Any] = next(
            (each for each in self.status.get("conditions", []) if each["type"] == "Ready"), {}
        )
        words = [f"{self.status.get('phase') or 'Pending':10}", f"attempt {self.status.get('attempt') or 0}"]
        words += [f"last commit {commit['instant']}: {commit['rows']} rows"] if commit else []
        words += [] if ready.get("status") == "True" else [str(ready.get("message") or "")]
        if (line := "  ".join(words)) != self._shown:
            self._shown = line
            _line(f"{datetime.now(UTC):%H:%M:%S}  {line}")


def _send(bootstrap_servers: str, over: threading.Event) -> None:
    numbers = iter(range(sys.maxsize))
    while not over.wait(1.0):
        produce(bootstrap_servers, TOPIC, _orders(numbers))


def _orders(numbers: Iterator[int]) -> Iterator[tuple[bytes, bytes]]:
    chance = random.Random()  # noqa: S311 - made-up orders
    for _ in range(ROWS_PER_SECOND):
        number = next(numbers)
        order = {
            "order_id": f"order-{number % 10_000:05d}",
            "amount": f"{chance.randrange(100, 100_000) / 100:.2f}",
            "updated_at": datetime.now(UTC).isoformat(),
            "region": ("north", "south")[number % 2],
            "deleted": number % 50 == 49,
        }
        yield str(order["order_id"]).encode(), json.dumps(order).encode()


def _title(text: str) -> None:
    _line(f"\n{_BOLD}== {text}{_PLAIN}")


def _line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
