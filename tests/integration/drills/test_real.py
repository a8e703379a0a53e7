"""One real pipeline to which things happen: the alerts that fire, what the pages' commands print, the rows after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devservers.kafka import KafkaBroker
from support.drills.real import RealPipeline
from support.drills.recording import judge
from support.drills.shell import lines_of, shell_for
from support.drills.troubles import QUICK, TOPIC, TROUBLES, Drill, Trouble

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("kubectl")]


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """A healthy pipeline with rows, scraped for some minutes."""
    folder = tmp_path_factory.mktemp("drill")
    table = folder / "table"
    with KafkaBroker(heap="256m") as broker:
        broker.create_topic(TOPIC, partitions=2)
        pipeline = RealPipeline(
            folder,
            source={"kafka": {"bootstrapServers": broker.bootstrap_servers, "topics": [TOPIC], "options": QUICK}},
            format={"type": "json", "schema": "id BIGINT, text STRING"},
            table={"path": str(table), "recordKey": ["id"], "index": {"buckets": 2}},
            checkpoint={"path": str(folder / "checkpoint")},
            commit={"interval": "1s", "trigger": "500ms"},
            services={"mode": "inline"},
            slo={"commitLatency": "60s", "freshness": "5m"},
        )
        with shell_for(pipeline, folder, str(table)) as shell:
            made = Drill(broker, pipeline, shell, table)
            try:
                made.send(200)
                pipeline.starts()
                made.rows_are_in()
                pipeline.pass_time(5)
                made.expect(frozenset())
                yield made
            finally:
                made.pipeline.end()


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.story)
def test_it_is_seen_and_the_pages_lead_out_of_it(drill: Drill, trouble: Trouble, tmp_path: Path) -> None:
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
