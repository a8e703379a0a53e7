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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from bench.results_format import Case, save_cases
from bucketingest_operator.kube.api import AlreadyExists, Api
from bucketingest_operator.kube.kinds import BUCKET_INGESTS, Kind
from bucketingest_operator.resource import RESTART_ANNOTATION
from devcluster.cluster import EmbeddedCluster
from devcluster.instance import instance
from operator_bench.cases import Interval, Samples, restart_cases, steady_cases
from operator_bench.definition import define
from operator_bench.fleet import Fleet

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
NAMESPACES = 10
PROBES = 50
COMMIT_SECONDS = 30.0
RESTARTS_SECONDS_MAX = 1200.0

_OWN = re.compile(r"(# \w+ )?(bucketingest_operator_|process_)")
_RUNNING = re.compile(r'^bucketingest_resource_phase\{.*phase="Running"\} 1$', re.MULTILINE)


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
        define(cluster)
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
                again, restarting = await seen.samples(), time.monotonic()
                await _restart(api, fleet, resources)
                restarted, restarts_took = await seen.samples(), time.monotonic() - restarting
            finally:
                operator.terminate()
                await operator.wait()
                player.cancel()
    notes = [f"{resources} resources filled in {filled:.0f} s", scrape]
    steadily = Interval(before, after, took)
    restarts = Interval(again, restarted, restarts_took)
    return [
        *steady_cases(resources, steadily, commit_seconds=COMMIT_SECONDS, delays=delays, notes=notes),
        *restart_cases(resources, restarts, fleet.stopping_max),
    ]


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


async def _restart(api: Api, fleet: Fleet, resources: int) -> None:
    """Ask for a restart of every resource, as after a change of the default image, and wait until all are done."""
    wanted = {"metadata": {"annotations": {RESTART_ANNOTATION: "1"}}}
    for number in range(resources):
        await api.patch(BUCKET_INGESTS, f"bench-{number % NAMESPACES}", f"p{number}", wanted)
    async with asyncio.timeout(RESTARTS_SECONDS_MAX):
        while len(fleet.restarted) < resources:  # noqa: ASYNC110 - polls what another process did
            await asyncio.sleep(0.2)


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


if __name__ == "__main__":
    sys.exit(main())
