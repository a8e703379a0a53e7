"""The number of executors follows the load up and down, and no row is lost or doubled by it.

It takes ten minutes, as executors are given back after five quiet ones: `make test-scaling`.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Callable

import pytest

from support.cluster.kube import outline
from support.cluster.pipeline import Pipeline

pytestmark = pytest.mark.skipif(not os.environ.get("BUCKETINGEST_SCALING"), reason="ten minutes: make test-scaling")

NewPipeline = Callable[..., Pipeline]
FEW, ROWS, TIMES, MOST = 10, 120, 5, 4
"""Rows a second: until the first commit, so that the start leaves no backlog; then; and how many times more."""
NORMAL = 30
"""Seconds of input that are not committed while all is well: those of a commit interval, and of a micro-batch."""
UP_SECONDS, NORMAL_SECONDS, DOWN_SECONDS = 600.0, 600.0, 1200.0
CHANGES = {
    "source": {"kafka": {"options": {"minPartitions": "8"}}},
    # Each row takes a slot for 3 ms and no processor time: so more executors are faster, on any machine.
    "transform": {"sql": "SELECT * FROM source WHERE java_method('java.lang.Thread', 'sleep', 3L) IS NOT NULL"},
    "commit": {"interval": "15s", "trigger": "5s"},
    "health": {"maxCommitLag": "10m", "maxInflightAge": "10m"},
    "spark": {"executor": {"maxInstances": MOST}},
}


def test_executors_come_with_the_load_and_go_with_it_without_a_restart(on_volume: NewPipeline) -> None:
    clicks = on_volume("clicks")
    clicks.load(rows_per_second=FEW)
    applied = time.time()
    clicks.kube.apply(clicks.manifest(CHANGES))
    clicks.wait_for_commit(applied, "apply", within=UP_SECONDS)
    clicks.load(rows_per_second=ROWS)
    clicks.wait_for_commit(time.time() + NORMAL, "the usual load", within=UP_SECONDS)
    assert len(clicks.executors()) == 1

    clicks.load(rows_per_second=ROWS * TIMES)
    clicks.wait("load x5 -> more executors", lambda: runs_more(clicks), within=UP_SECONDS)
    clicks.wait("load x5 -> lag as before", lambda: lag(clicks) < ROWS * TIMES * NORMAL, within=NORMAL_SECONDS)

    clicks.load(rows_per_second=ROWS)
    clicks.wait("load / 5 -> fewer executors", lambda: gave_back(clicks), within=DOWN_SECONDS)
    clicks.wait_for_commit(time.time(), "fewer executors")

    found = changes(clicks)
    assert found[0]["before"] == 1, found
    for each in found:
        clicks.took[f"{each['before']} -> {each['executors']} executors, when input had waited for"] = each[
            "input_waits_seconds"
        ]
    clicks.judge()
    assert clicks.attempt() == 1, outline(clicks.get())
    (driver,) = clicks.drivers()
    assert [each["restartCount"] for each in driver["status"]["containerStatuses"]] == [0]


def lag(pipeline: Pipeline) -> int:
    """Offsets that are not committed, as the driver says."""
    (driver,) = pipeline.drivers()
    with urllib.request.urlopen(f"http://{driver['status']['podIP']}:9808/progress", timeout=10) as answer:
        return int(json.load(answer)["lag"]["offsets"])


def runs_more(pipeline: Pipeline) -> bool:
    """Whether as many run as it last asked for, and more than at the start."""
    found = changes(pipeline)
    return bool(found) and 1 < len(pipeline.executors()) == found[-1]["executors"]


def gave_back(pipeline: Pipeline) -> bool:
    """Whether it last asked for fewer executors, and no more than those run."""
    last = changes(pipeline)[-1]
    return last["executors"] < last["before"] and 1 <= len(pipeline.executors()) <= last["executors"]


def changes(pipeline: Pipeline) -> list[dict[str, float]]:
    """Each change of the number of executors, as the driver's log has it."""
    (driver,) = pipeline.drivers()
    lines = pipeline.kube.logs(pipeline.namespace, driver["metadata"]["name"], 10_000).splitlines()
    return [json.loads(each) for each in lines if "number of executors changed" in each]
