"""Random chains of schemas with a real registry, which says what is compatible, a broker and a running job: what it
calls compatible is in the table within two commits, no message is a dead letter, and the job is not started again.

BUCKETINGEST_REAL_CHAINS=0-10 plays these instead.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError

import pytest

from bucketingest.stream import ingest_resource
from devservers.registry import SchemaRegistry
from support.evolution.chains import MODES, Chain, FormatName
from support.evolution.expected import Expected, same
from support.evolution.formats import FORMATS
from support.evolution.rows import random_row
from support.jobs.stream_runs import Lake, NewTopic, Topic, finish

pytestmark = pytest.mark.kafka
log = logging.getLogger(__name__)

FIRST, _, LAST = os.environ.get("BUCKETINGEST_REAL_CHAINS", "0-3").partition("-")
COMPATIBLE = [mode for mode in MODES if mode != "NONE"]


def chain_of(number: int) -> Chain:
    """Modes and formats in turns, without steps that no column follows."""
    format_: FormatName = list(FORMATS)[number % len(FORMATS)]
    mode = COMPATIBLE[(number + number // len(COMPATIBLE)) % len(COMPATIBLE)]
    found = (Chain.of(seed, format_) for seed in range(number * 1000, number * 1000 + 999))
    return next(each for each in found if each.mode == mode and not each.odd)


@dataclass
class Flow:
    """Messages of a chain's versions on their way into a table."""

    chain: Chain
    draw: random.Random
    topic: Topic
    registry: SchemaRegistry
    lake: Lake
    expected: Expected = field(init=False)
    ids: dict[int, int] = field(default_factory=dict)
    """Of the versions that the registry took."""
    letters: int = 0

    def __post_init__(self) -> None:
        self.expected = Expected(self.chain.format)

    def registers(self, place: int) -> bool:
        """A version; whether the registry calls it compatible."""
        subject, text = f"{self.topic.name}-value", FORMATS[self.chain.format].registered(self.chain.versions[place])
        try:
            self.ids[place] = self.registry.register(subject, text, kind=self.chain.format.upper())
        except HTTPError as refused:
            if refused.code not in {409, 422}:  # it says that the version is not compatible
                raise
            return False
        if place == 0:
            self.registry.only_compatible(subject, self.chain.mode)
            self.expected.starts(self.chain.versions[place])
        return True

    def sends(self, newest: int) -> None:
        """Messages of the newest version and of older ones."""
        sent = []
        for at in [newest, *self.draw.choices(list(self.ids), k=4)]:
            key, version = f"k{self.draw.random()}", self.chain.versions[at]
            sent.append((self.ids[at], version, random_row(self.draw, self.chain.format, version, key)))
        of = FORMATS[self.chain.format]
        self.topic.send([(None, of.message(version, row, schema_id)) for schema_id, version, row in sent])
        self.letters += len(self.expected.takes(sent))

    def is_there(self) -> bool:
        return bool(self.lake.instants()) and self.lake.rows().num_rows >= len(self.expected.rows)

    def check(self) -> None:
        found = {row["id"]: row for row in self.lake.rows().to_pylist()}
        assert found.keys() == self.expected.rows.keys()
        for key, row in self.expected.rows.items():
            values = {name: each for name, each in found[key].items() if name != "id"}
            assert same(values, row), f"{self.chain.mode}, {self.chain.format}, {key}: {values}, not {row}"


@pytest.mark.parametrize("number", range(int(FIRST), int(LAST)))
def test_what_a_registry_calls_compatible_is_in_the_table_within_two_commits(
    spark: Any, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry, number: int
) -> None:
    chain = chain_of(number)
    flow = Flow(chain, random.Random(number), new_topic(), schema_registry, lake)
    assert flow.registers(0)
    flow.sends(0)
    format_: dict[str, Any] = {"type": chain.format, "registry": {"url": schema_registry.url}}
    resource = lake.resource(flow.topic.source(), format=format_, table={"recordKey": ["id"]})
    running = ingest_resource(spark, resource)
    try:
        _until(running, flow.is_there)
        for place in range(1, len(chain.versions)):
            if not flow.registers(place):
                continue
            before = len(lake.instants())
            flow.sends(place)
            _until(running, flow.is_there)
            assert len(lake.instants()) - before <= 2
            flow.check()
        progress = running.progress()
    finally:
        running.request_stop()
        finish(running)
    log.info("%s, %s: %s of %s versions", chain.mode, chain.format, len(flow.ids), len(chain.versions))
    assert not flow.expected.refused
    assert flow.letters == flow.expected.rounded == len(lake.letters())
    assert (progress.rollbacks, progress.position_losses) == (0, 0)


def _until(running: Any, reached: Callable[[], Any]) -> None:
    for _ in range(600):
        assert not running.wait(0.1), "the query has ended"
        if reached():
            return
    raise AssertionError("it was not reached")
