"""One real pipeline to which things happen: the alerts that fire, what the pages' commands print, the rows after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from devservers.kafka import KafkaBroker
from devservers.s3 import S3Server
from support.drills.disks import small_disk, why_not
from support.drills.drill import QUICK, TOPIC, Drill, Trouble
from support.drills.real import RealPipeline
from support.drills.recording import judge
from support.drills.shell import lines_of, shell_for
from support.drills.troubles import TROUBLES
from support.proxy import Proxy

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("kubectl")]


MODE = {"mode": "checkpoint", "trigger": "500ms"}
"""Each micro-batch is a commit: then one may be promised within a second."""


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(heap="256m") as started:
        yield started


@contextmanager
def healthy(broker: KafkaBroker, folder: Path, topic: str, tables: str, files: Path, **spec: Any) -> Iterator[Drill]:
    """A healthy pipeline with rows, scraped for some minutes. `tables`: where the table and Spark's checkpoint are;
    `files`: the same as a folder.
    """
    broker.create_topic(topic, partitions=2)
    settings: dict[str, Any] = {
        "source": {"kafka": {"bootstrapServers": broker.bootstrap_servers, "topics": [topic], "options": QUICK}},
        "format": {"type": "json", "schema": "id BIGINT, text STRING"},
        "table": {"path": f"{tables}/table", "recordKey": ["id"], "index": {"buckets": 2}},
        "checkpoint": {"path": f"{tables}/checkpoint"},
        "commit": {"interval": "1s", "trigger": "500ms"},
        "services": {"mode": "inline"},
        "slo": {"commitLatency": "60s", "freshness": "5m"},
    }
    pipeline = RealPipeline(folder, **{**settings, **spec})
    with shell_for(pipeline, folder, f"{tables}/table") as shell:
        made = Drill(broker, pipeline, shell, files / "table", topic)
        try:
            made.send(200)
            pipeline.starts()
            made.rows_are_in()
            pipeline.pass_time(5)
            made.expect(frozenset())
            yield made
        finally:
            made.pipeline.end()


@pytest.fixture(scope="module")
def drill(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    folder = tmp_path_factory.mktemp("drill")
    with healthy(broker, folder, TOPIC, str(folder), folder) as made:
        yield made


@pytest.fixture(scope="module")
def drill_on_disk(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """Table and checkpoint are on a small disk of their own."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("drill")
    tables = folder / "tables"
    with small_disk(tables) as disk, healthy(broker, folder, "full", str(tables), tables) as made:
        made.disk = disk
        yield made


@pytest.fixture(scope="module")
def drill_on_s3(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """The table is in a store behind a proxy."""
    folder = tmp_path_factory.mktemp("drill")
    with S3Server() as server, Proxy(urlsplit(server.endpoint).port or 0) as proxy, pytest.MonkeyPatch.context() as env:
        for name, value in {**server.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}.items():
            env.setenv(name, value)
        bucket = server.create_bucket("lake")
        spec = {"checkpoint": {"path": str(folder / "checkpoint")}, "slo": {"commitLatency": "1s"}, "commit": MODE}
        with healthy(broker, folder, "slow", bucket, server.folder / "buckets" / "lake", **spec) as made:
            made.store = proxy
            yield made


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.story)
def test_it_is_seen_and_the_pages_lead_out_of_it(
    request: pytest.FixtureRequest, trouble: Trouble, tmp_path: Path
) -> None:
    drill: Drill = request.getfixturevalue(trouble.drill)
    trouble.causes(drill)
    drill.pipeline.pass_time(trouble.minutes)
    drill.expect(trouble.alerts)
    wrong = [judge(drill.pipeline.recording, drill.expected, tmp_path)]
    for page, prints in trouble.pages.items():
        for part, words in prints.items():
            lines = [line for line in lines_of(page) if part in line]
            assert lines, f"{page} has no such command: {part}"
            wrong += [f"{page}: {each}" for each in drill.shell.type(*lines) if words not in each.output]
    trouble.remedy(drill)
    drill.rows_are_in()
    assert not any(wrong), "\n".join(wrong)
