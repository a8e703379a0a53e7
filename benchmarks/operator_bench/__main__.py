"""Measures the operator with many resources: `python -m operator_bench`."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import kopf
from prometheus_client.parser import text_string_to_metric_families

from bench.results_format import Case, Measured, ratios, save_cases, this_machine
from bucketingest_operator.kube.api import AlreadyExists, Api
from bucketingest_operator.kube.kinds import BUCKET_INGESTS, Kind
from devcluster.cluster import EmbeddedCluster
from devcluster.instance import instance
from operator_bench.fleet import Fleet

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
NAMESPACES = 10
PROBES = 50
COMMIT_SECONDS = 30.0

_OWN = re.compile(r"(# \w+ )?(bucketingest_operator_|process_)")
_RUNNING = re.compile(r'^bucketingest_resource_phase\{.*phase="Running"\} 1$', re.MULTILINE)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def main() -> int:
    """Start a control plane, measure, stop it."""
    parser = argparse.ArgumentParser(prog="operator_bench", description=__doc__)
    parser.add_argument("--resources", type=int, default=1000)
    parser.add_argument("--steady", type=float, default=120, help="seconds of the measured steady state")
    parser.add_argument("--name", default="local", help="name of the results file")
    options = parser.parse_args()
    cluster = EmbeddedCluster(instance("bench"))
    cluster.up(with_node=False)
    try:
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds" / "bucketingests.yaml"))
        cluster.kubectl("wait", "--for=condition=Established", "crd/bucketingests.bucketingest.dev", "--timeout=30s")
        cases = asyncio.run(_measure(options.resources, options.steady))
    finally:
        cluster.down()
    save_cases(RESULTS / f"operator-{options.name}.json", cases)
    for case in cases:
        print(f"{case.case}: {case.ours.median:.3g} {case.unit} (budget {case.peer.median:g})")
        for note in case.notes:
            print(f"  {note}")
    return 0 if all(case.ratio >= 1 for case in cases) else 1


async def _measure(resources: int, steady: float) -> list[Case]:
    async with Api() as api, aiohttp.ClientSession() as http:
        fleet = Fleet(api, COMMIT_SECONDS)
        player = asyncio.create_task(fleet.run())
        for number in range(NAMESPACES):
            await _ensure(api, Kind("", "v1", "namespaces"), {"metadata": {"name": f"bench-{number}"}})
        with tempfile.TemporaryDirectory() as folder:
            operator = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bucketingest_operator.main", "--listen", "127.0.0.1:19810"),
                *("--leader-election-namespace", "default"),
                stderr=(Path(folder) / "log").open("wb"),
            )
            try:
                seen = _Operator(http)
                await seen.until(lambda text: "\nbucketingest_operator_leader 1.0\n" in text)
                filled = await _fill(api, fleet, resources)
                await seen.until(lambda text: len(_RUNNING.findall(text)) >= resources)
                before, started = await seen.samples(), time.monotonic()
                await asyncio.sleep(steady)
                after, took = await seen.samples(), time.monotonic() - started
                delays = await _probe(api, fleet)
                scrape = await seen.scrape_seconds()
            finally:
                operator.terminate()
                await operator.wait()
                player.cancel()
    notes = [f"{resources} resources filled in {filled:.0f} s", scrape]
    return _cases(resources, before, after, took, delays=delays, notes=notes)


async def _ensure(api: Api, kind: Kind, content: dict[str, Any]) -> None:
    with suppress(AlreadyExists):
        await api.create(kind, None, content)


def _resource(namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": [name]}},
            "format": {"type": "json", "schema": "id STRING, amount DOUBLE, at TIMESTAMP"},
            "table": {"path": f"s3://lake/{namespace}/{name}", "recordKey": ["id"], "orderingField": "at"},
        },
    }


async def _fill(api: Api, fleet: Fleet, resources: int) -> float:
    """Create all resources; seconds until each has a running driver."""
    started = time.monotonic()
    for number in range(resources):
        namespace = f"bench-{number % NAMESPACES}"
        await api.create(BUCKET_INGESTS, namespace, _resource(namespace, f"p{number}"))
    while fleet.running < resources:  # noqa: ASYNC110 - polls what another process did
        await asyncio.sleep(0.2)
    return time.monotonic() - started


async def _probe(api: Api, fleet: Fleet) -> list[float]:
    """Seconds from the creation of one more resource to its driver pod, next to all the others."""
    delays = []
    for number in range(PROBES):
        name = f"probe{number}"
        started = time.monotonic()
        await api.create(BUCKET_INGESTS, "bench-0", _resource("bench-0", name))
        while f"bench-0/{name}" not in fleet.seen:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        delays.append(fleet.seen[f"bench-0/{name}"] - started)
        await asyncio.sleep(random.uniform(0, 0.5))
    return delays


class _Operator:
    """Reads the operator's metrics."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def samples(self) -> Samples:
        """The operator's own metrics."""
        # Parsing the metrics of all resources takes seconds, during which no driver of the fleet would answer.
        text = "\n".join(line for line in (await self._text()).splitlines() if _OWN.match(line))
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(f"{text}\n")
            for sample in family.samples
        }

    async def _text(self) -> str:
        async with self._http.get("http://127.0.0.1:19810/metrics") as answer:
            return await answer.text()

    async def scrape_seconds(self) -> str:
        started = time.monotonic()
        async with self._http.get("http://127.0.0.1:19810/metrics") as answer:
            size = len(await answer.read())
        return f"a scrape took {time.monotonic() - started:.2f} s, {size / 1e6:.1f} MB"

    async def until(self, condition: Callable[[str], bool], seconds: float = 600) -> None:
        """Wait until the text of the metrics fulfils a condition."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    if condition(await self._text()):
                        return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(10)  # a scrape is work for the operator too


def _quantile(before: Samples, after: Samples, part: float) -> float:
    """The quantile of the histogram, interpolated within its bucket."""
    name = "bucketingest_operator_reconcile_seconds_bucket"
    bounds = sorted(
        (float(dict(labels)["le"]), value - before.get((found, labels), 0))
        for (found, labels), value in after.items()
        if found == name
    )
    wanted, low, counted = bounds[-1][1] * part, 0.0, 0.0
    for bound, total in bounds:
        if total >= wanted:
            return low if bound == float("inf") else low + (bound - low) * (wanted - counted) / max(total - counted, 1)
        low, counted = bound, total
    return low


def _cases(
    resources: int,
    before: Samples,
    after: Samples,
    took: float,
    *,
    delays: Sequence[float],
    notes: Sequence[str],
) -> list[Case]:
    def rate(name: str) -> float:
        return (after[name, ()] - before[name, ()]) / took

    passes = rate("bucketingest_operator_reconcile_seconds_count")
    cpu = rate("process_cpu_seconds_total")
    where = f"{resources} resources whose drivers run and commit every {COMMIT_SECONDS:g} s, against a real API server"
    pass_notes = (
        f"{passes:.0f} passes/s, {cpu:.2f} cores",
        f"p50 of a pass {_quantile(before, after, 0.5) * 1000:.0f} ms",
        *notes,
    )
    ordered = sorted(delays)
    rows = (
        ("operator-pass-p99", f"p99 of a pass: {where}.", "s", _quantile(before, after, 0.99), 1.0, pass_notes),
        (
            "operator-memory",
            f"Resident memory: {where}.",
            "MiB",
            after["process_resident_memory_bytes", ()] / 2**20,
            250.0,
            (),
        ),
        (
            "operator-api-calls",
            f"Calls of the API: {where}.",
            "calls/s",
            rate("bucketingest_operator_api_calls"),
            100.0,
            (),
        ),
        (
            "operator-apply-to-pod",
            f"p99 of the time from the creation of one more resource to its driver pod: {where}.",
            "s",
            ordered[int(len(ordered) * 0.99)],
            2.0,
            (
                f"median {ordered[len(ordered) // 2]:.2f} s of {len(ordered)}; the longest "
                + ", ".join(f"{each:.2f}" for each in ordered[-3:]),
            ),
        ),
    )
    return [_case(*row, resources) for row in rows]


def _case(  # noqa: PLR0917
    name: str, what: str, unit: str, figure: float, budget: float, notes: tuple[str, ...], resources: int
) -> Case:
    ours, peer = Measured.of("bucketingest-operator", [figure]), Measured.of("budget", [budget])
    ratio, spread = ratios(ours, peer, higher_is_better=False)
    return Case(
        case=name,
        what=what,
        unit=unit,
        higher_is_better=False,
        rows=resources,
        ours=ours,
        peer=peer,
        ratio=ratio,
        ratio_spread=spread,
        load_average=(os.getloadavg()[0],),
        notes=notes,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=this_machine(
            {"python": sys.version.split()[0], "kopf": kopf.__version__ if hasattr(kopf, "__version__") else ""}
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
