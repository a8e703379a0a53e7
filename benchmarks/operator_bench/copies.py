"""The operator's copies of pods compared with Kopf's index and the kubernetes client's informer, in a cluster with many
pods of others: `python -m operator_bench.copies`.

All follow the same API server, one after the other. Each prints how late it saw a change of one of the operator's pods:
the change has the time at which it was made.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import kopf
import kubernetes.client
import kubernetes.config
from kubernetes.informer import ADDED, MODIFIED, SharedInformer

from bench.results_format import Case, Measured, save_cases
from bucketingest_operator.handlers import kopf_settings
from bucketingest_operator.kube.api import AlreadyExists, Api, Object
from bucketingest_operator.kube.connection import kopf_connection
from bucketingest_operator.kube.kinds import PODS, Kind
from bucketingest_operator.kube.mirror import Mirror
from bucketingest_operator.manifests.attempt_objects import MANAGED, UID_LABEL
from devcluster.cluster import EmbeddedCluster
from devcluster.instance import instance

RESULTS: Final = Path(__file__).parents[2] / "benchmarks" / "results"
NAMESPACE: Final = "copies"
STAMP: Final = "bench.bucketingest.dev/at"
OWN_CHANGES, FOREIGN_CHANGES = 10, 50
"""Changes per second, as of a busy cluster."""
WARM_UP_SECONDS: Final = 20.0
WARM_UPS_MAX: Final = 6
"""Warm-ups until a side must have seen its first change."""
_LABEL, _, _VALUE = MANAGED.partition("=")


def stamp_of(pod: Object) -> float | None:
    """When a pod was changed, seconds since 1970; None: never."""
    text = (pod["metadata"].get("annotations") or {}).get(STAMP)
    return None if text is None else float(text)


def report(stamp: float | None) -> None:
    """Print how late a change was seen."""
    if stamp is not None:
        print(time.time() - stamp, flush=True)


async def mirror() -> None:
    """The operator's own copy: the API server selects by label."""
    async with Api() as api:
        await Mirror[float | None](
            api,
            PODS,
            None,
            MANAGED,
            asyncio.Lock(),
            keep=lambda pod: stamp_of(pod) or 0.0,
            changed=lambda _owner, _before, after: report(after or None),
        ).run()


async def index() -> None:
    """Kopf's means for the same: an index, which Kopf selects by label itself."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)  # type: ignore[arg-type, unused-ignore]
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await kopf_connection()

    @kopf.index("pods", labels={_LABEL: _VALUE}, registry=registry)  # type: ignore[arg-type, unused-ignore]
    def by_owner(body: kopf.Body, **_: Any) -> dict[str, float]:
        stamp = stamp_of(dict(body))
        report(stamp)
        return {body["metadata"]["labels"][UID_LABEL]: stamp or 0.0}

    await kopf.operator(registry=registry, settings=kopf_settings(), clusterwide=True, standalone=True)


async def informer() -> None:
    """The kubernetes client's means: a thread that keeps the client's models."""
    kubernetes.config.load_kube_config(os.environ["KUBECONFIG"])  # type: ignore[no-untyped-call]
    pods = kubernetes.client.CoreV1Api().list_pod_for_all_namespaces
    follows = SharedInformer(pods, label_selector=MANAGED)  # type: ignore[no-untyped-call]
    for event in (ADDED, MODIFIED):
        follows.add_event_handler(event, lambda pod: report(stamp_of(pod.to_dict())))  # type: ignore[no-untyped-call]
    follows.start()  # type: ignore[no-untyped-call]
    await asyncio.Event().wait()


SIDES: Final[dict[str, Callable[[], Any]]] = {"mirror": mirror, "index": index, "informer": informer}
PEERS: Final = {
    "index": f"kopf {metadata.version('kopf')} index",
    "informer": f"kubernetes {metadata.version('kubernetes')} informer",
}


async def _fill(api: Api, own: int, foreign: int) -> None:
    with suppress(AlreadyExists):
        await api.create(Kind("", "v1", "namespaces"), None, {"metadata": {"name": NAMESPACE}})
    limit = asyncio.Semaphore(16)

    async def create(name: str, labels: dict[str, str]) -> None:
        # As large as pods are: Spark's drivers have dozens of settings.
        env = [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(40)]
        spec = {"containers": [{"name": "c", "image": "played", "env": env}], "automountServiceAccountToken": False}
        async with limit:
            await api.create(PODS, NAMESPACE, {"metadata": {"name": name, "labels": labels}, "spec": spec})

    await asyncio.gather(
        *(create(f"own-{number}", {_LABEL: _VALUE, UID_LABEL: f"uid-{number}"}) for number in range(own)),
        *(create(f"foreign-{number}", {"app": "other"}) for number in range(foreign)),
    )


async def _churn(api: Api, own: int, foreign: int, seconds: float) -> None:
    """Change pods at the given rates."""
    end = time.monotonic() + seconds

    async def change(kind: str, count: int, rate: int) -> None:
        while time.monotonic() < end:
            started = time.monotonic()
            name = f"{kind}-{random.randrange(count)}"
            await api.patch(PODS, NAMESPACE, name, {"metadata": {"annotations": {STAMP: str(time.time())}}})
            await asyncio.sleep(max(0.0, 1 / rate - (time.monotonic() - started)))

    await asyncio.gather(change("own", own, OWN_CHANGES), change("foreign", foreign, FOREIGN_CHANGES))


async def _measure(side: str, api: Api, own: int, foreign: int, seconds: float) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "operator_bench.copies", "--side", side), stdout=asyncio.subprocess.PIPE
    )
    late: list[float] = []

    async def read() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            late.append(float(line))  # noqa: PERF401 - as they come

    reading = asyncio.create_task(read())
    try:
        for _ in range(WARM_UPS_MAX):  # it reads everything first
            await _churn(api, own, foreign, WARM_UP_SECONDS)
            if late:
                break
        else:
            raise SystemExit(f"{side} saw no change within {WARM_UPS_MAX * WARM_UP_SECONDS:g} s")
        before = _cpu_seconds(process.pid)
        await _churn(api, own, foreign, seconds)
        cpu, memory = _cpu_seconds(process.pid) - before, _resident_mib(process.pid)
    finally:
        process.terminate()
        await process.wait()
        await reading
    delays = sorted(late[-int(seconds * OWN_CHANGES * 0.8) :])  # without those that were read at the start
    return {"cpu": cpu / seconds, "memory": memory, "p99": delays[int(len(delays) * 0.99)]}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def _cases(found: dict[str, list[dict[str, float]]], what: str, rows: int) -> list[Case]:
    figures = (
        ("memory", "MiB", "Resident memory"),
        ("cpu", "cores", "CPU"),
        ("p99", "s", "p99 of the delay of a change"),
    )
    return [
        _case(side, figure, unit, f"{title} of a copy of the operator's pods: {what}.", found, rows)
        for figure, unit, title in figures
        for side in PEERS
    ]


def _case(  # noqa: PLR0917
    side: str, figure: str, unit: str, what: str, found: dict[str, list[dict[str, float]]], rows: int
) -> Case:
    ours = Measured.of("mirror", [run[figure] for run in found["mirror"]])
    peer = Measured.of(PEERS[side], [run[figure] for run in found[side]])
    return Case.of(
        case=f"operator-copies-{figure}-{side}",
        what=what,
        unit=unit,
        rows=rows,
        ours=ours,
        peer=peer,
        versions={"python": sys.version.split()[0]},
        loads=os.getloadavg()[:1],
    )


async def _compare(options: argparse.Namespace) -> list[Case]:
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    async with Api() as api:
        await _fill(api, options.own, options.foreign)
        for _ in range(options.repeats):
            for side, runs in found.items():
                runs.append(await _measure(side, api, options.own, options.foreign, options.seconds))
    what = (
        f"{options.own} pods of the operator, {OWN_CHANGES} changes per second, and {options.foreign} of others, "
        f"{FOREIGN_CHANGES} changes per second"
    )
    return _cases(found, what, options.own + options.foreign)


def main() -> None:
    """Compare, or be one side."""
    parser = argparse.ArgumentParser(prog="operator_bench.copies", description=__doc__)
    parser.add_argument("--side", choices=SIDES, help="only follow the pods, and print delays")
    parser.add_argument("--own", type=int, default=1000)
    parser.add_argument("--foreign", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=30, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--name", default="local", help="of the results file")
    options = parser.parse_args()
    if options.side:
        asyncio.run(SIDES[options.side]())
        return
    cluster = EmbeddedCluster(instance("bench"))
    cluster.up(with_node=False)
    try:
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        cases = asyncio.run(_compare(options))
    finally:
        cluster.down()
    save_cases(RESULTS / f"operator-copies-{options.name}.json", cases)
    for case in cases:
        print(f"{case.case}: {case.ours.median:.3g} {case.unit}, {case.peer.name} {case.peer.median:.3g}")


if __name__ == "__main__":
    main()
