"""Measures the operator's memory with many idle resources, and with large objects that only carry its labels.

`python -m operator_bench.memory`; the chart's limit is the budget.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from bench.results_format import Case, Measured, save_cases
from bucketingest_operator.kube.api import AlreadyExists, Api, ApiError
from bucketingest_operator.kube.kinds import BUCKET_INGESTS, CONFIG_MAPS, PODS, Kind
from bucketingest_operator.manifests.attempt_objects import MANAGED, UID_LABEL
from devcluster.cluster import EmbeddedCluster
from devcluster.instance import instance
from operator_bench.definition import define

ROOT: Final = Path(__file__).parents[2]
VALUES: Final = ROOT / "charts" / "bucketingest" / "values.yaml"
PORT: Final = 19811
NAMESPACE: Final = "memory"
CONFIG_MAPS_LARGE, PODS_LARGE, LARGE_BYTES = 500, 300, 250_000
_AT_ONCE: Final = 8
_SCRAPE_SECONDS: Final = 30.0
"""As Prometheus does: a scrape of 5,000 takes a second of a core, and the operator needs it for passes."""
_SETTLING_SECONDS: Final = 3600.0
"""A busy machine takes long, and uses no more memory for it."""
_SUSPENDED: Final = re.compile(r'^bucketingest_resource_phase\{.*phase="Suspended"\} 1$', re.MULTILINE)
_OTHERS: Final = "00000000-0000-4000-8000-000000000000"


def main() -> int:
    """Start a control plane, measure, stop it. 1 if the operator needs more than the chart's limit."""
    parser = argparse.ArgumentParser(prog="operator_bench.memory", description=__doc__)
    parser.add_argument("--resources", type=int, default=5000)
    parser.add_argument("--large", type=float, default=1.0, help="part of the large objects to make; 0: none")
    parser.add_argument("--name", default="local", help="name of the results file")
    options = parser.parse_args()
    cluster = EmbeddedCluster(instance("bench-mem"))
    cluster.up(with_node=False)
    try:
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        define(cluster)
        cases = asyncio.run(_measure(options.resources, options.large))
    finally:
        cluster.down()
    save_cases(ROOT / "benchmarks" / "results" / f"operator-memory-{options.name}.json", cases)
    for case in cases:
        print(
            f"{case.case}: {case.ours.median:.0f} {case.unit} (limit {case.peer.median:.0f}); {'; '.join(case.notes)}"
        )
    return 0 if all(case.ratio >= 1 for case in cases) else 1


async def _measure(resources: int, large: float) -> list[Case]:
    async with Api() as api:
        with suppress(AlreadyExists):
            await api.create(Kind("", "v1", "namespaces"), None, {"metadata": {"name": NAMESPACE}})
        cases = []
        if large:
            cases.append(await _large_objects(api, int(CONFIG_MAPS_LARGE * large), int(PODS_LARGE * large)))
        if resources:
            cases.append(await _idle_resources(api, resources))
        return cases


async def _large_objects(api: Api, config_maps: int, pods: int) -> Case:
    """Objects of a tenant that have the operator's labels, and fill its lists at the start."""
    labels = {**dict(each.split("=") for each in MANAGED.split(",")), UID_LABEL: _OTHERS}
    text = "x" * LARGE_BYTES
    container = {"name": "pause", "image": "pause"}

    def made(number: int) -> tuple[Kind, dict[str, Any]]:
        metadata = {"name": f"large-{number}", "labels": labels, "annotations": {"text": text}}
        if number < config_maps:
            return CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        return PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}

    await _create_all(api, [made(number) for number in range(config_maps + pods)])
    highest, notes = await _highest_of_operator(0)
    for kind in (CONFIG_MAPS, PODS):
        await api.call("DELETE", kind.path(NAMESPACE), params={"labelSelector": MANAGED}, seconds=60)
    what = f"Highest memory of a start beside {config_maps} ConfigMaps and {pods} pods of 250 KB with its labels"
    return _case("operator-memory-large-objects", what, highest, notes, config_maps + pods)


async def _idle_resources(api: Api, resources: int) -> Case:
    """Suspended resources, from the first status of each."""

    def made(number: int) -> tuple[Kind, dict[str, Any]]:
        table = {"path": f"s3://lake/{number}", "recordKey": ["value"]}
        spec = {"source": {"rate": {"rowsPerSecond": 1}}, "table": table, "suspend": True}
        kind = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest"}
        return BUCKET_INGESTS, {**kind, "metadata": {"name": f"idle-{number}"}, "spec": spec}

    await _create_all(api, [made(number) for number in range(resources)])
    highest, notes = await _highest_of_operator(resources)
    again, more = await _highest_of_operator(resources)
    notes = (*notes, f"the next start {again:.0f} MiB", *more)
    what = f"Highest memory with {resources} suspended resources, four scrapes included"
    return _case("operator-memory-idle", what, max(highest, again), notes, resources)


async def _create_all(api: Api, made: list[tuple[Kind, dict[str, Any]]]) -> None:
    async def create() -> None:
        while made:
            kind, content = made.pop()
            try:
                await api.create(kind, NAMESPACE, content)
            except AlreadyExists:
                pass
            except ApiError:  # a busy machine
                made.append((kind, content))
                await asyncio.sleep(1)

    print(f"creates {len(made)} objects", flush=True)
    await asyncio.gather(*(create() for _ in range(_AT_ONCE)))


async def _highest_of_operator(resources: int) -> tuple[float, tuple[str, ...]]:
    """The highest resident memory in MiB of an operator that starts and reports all resources as suspended."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        operator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bucketingest_operator.main", "--listen", f"127.0.0.1:{PORT}"),
            *("--leader-election-namespace", "default"),
            stderr=(Path(folder) / "log").open("wb"),
        )
        try:
            size = await _until_settled(resources)
            numbers = _memory_of(operator.pid)
        finally:
            operator.terminate()
            await operator.wait()
    took = f"{time.monotonic() - started:.0f} s"
    return numbers["VmHWM"], (f"{numbers['VmRSS']:.0f} MiB at the end", f"a scrape {size / 1e6:.1f} MB", took)


def _memory_of(process: int) -> dict[str, float]:
    """Highest (VmHWM) and current (VmRSS) resident memory in MiB."""
    lines = [line.split() for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()]
    return {line[0].rstrip(":"): int(line[1]) / 1024 for line in lines if line[0] in {"VmHWM:", "VmRSS:"}}


async def _until_settled(resources: int) -> int:
    """Wait until each resource has its status; returns the bytes of the last of four scrapes."""
    async with asyncio.timeout(_SETTLING_SECONDS), aiohttp.ClientSession() as http:
        while True:
            await asyncio.sleep(_SCRAPE_SECONDS)
            with suppress(aiohttp.ClientError):
                text = await _scrape(http)
                leads, settled = "\nbucketingest_operator_leader 1.0\n" in text, len(_SUSPENDED.findall(text))
                print(f"{settled} of {resources} resources have their status", flush=True)
                if leads and settled == resources:
                    break
        for _ in range(4):
            text = await _scrape(http)
        return len(text)


async def _scrape(http: aiohttp.ClientSession) -> str:
    async with http.get(f"http://127.0.0.1:{PORT}/metrics") as answer:
        return await answer.text()


def _case(name: str, what: str, figure: float, notes: tuple[str, ...], rows: int) -> Case:
    limit = yaml.safe_load(VALUES.read_text(encoding="utf-8"))["operator"]["resources"]["limits"]["memory"]
    return Case.of(
        case=name,
        what=f"{what}, against a real API server.",
        unit="MiB",
        rows=rows,
        ours=Measured.of("bucketingest-operator", [figure]),
        peer=Measured.of("the chart's limit", [float(limit.removesuffix("Mi"))]),
        versions={"python": sys.version.split()[0]},
        loads=os.getloadavg()[:1],
        notes=notes,
    )


if __name__ == "__main__":
    sys.exit(main())
