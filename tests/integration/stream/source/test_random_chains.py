"""Random chains of schemas with a real registry, a broker and a running job: what the registry calls compatible is in
the table within two commits, no message is a dead letter, and the job is not started again.

BUCKETINGEST_RUNNING_CHAINS=0-10 plays these instead.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from bucketingest.stream import ingest_resource
from devservers.registry import SchemaRegistry
from support.evolution.chains import MODES, Chain, FormatName, next_version
from support.evolution.expected import Expected
from support.evolution.formats import FORMATS, Version
from support.evolution.process import COMMITS_MAX
from support.evolution.reads import same_rows
from support.evolution.registries import Real
from support.evolution.rows import random_row
from support.jobs.stream_runs import Lake, NewTopic, Topic, finish

pytestmark = pytest.mark.kafka

FIRST, _, LAST = os.environ.get("BUCKETINGEST_RUNNING_CHAINS", "0-3").partition("-")
_TRIES_MAX: Final = 40


def chain_of(number: int) -> Chain:
    """Modes and formats in turns, without steps that no column follows."""
    format_: FormatName = list(FORMATS)[number % len(FORMATS)]
    modes = [mode for mode in MODES if mode != "NONE"]
    mode = modes[(number + number // len(modes)) % len(modes)]
    found = (Chain.of(seed, format_) for seed in range(number * 1000, number * 1000 + 999))
    return next(each for each in found if each.mode == mode and not each.odd)


@dataclass
class Flow:
    """Messages of a chain's versions on their way into a table."""

    chain: Chain
    draw: random.Random
    topic: Topic
    registry: Real
    lake: Lake
    expected: Expected = field(init=False)
    versions: list[tuple[int, Version]] = field(default_factory=list)
    """That the registry took, with their ids."""
    letters: int = 0

    def __post_init__(self) -> None:
        self.expected = Expected(self.chain.format)

    def registers(self, version: Version) -> bool:
        """This version, or another one if it is not compatible; whether the registry takes any."""
        for _ in range(_TRIES_MAX):
            schema_id = self.registry.register(version)
            if schema_id is not None:
                self.versions.append((schema_id, version))
                return True
            taken = replace(self.chain, versions=[tuple(each) for _, each in self.versions])
            version = next_version(self.draw, taken)
        return False

    def sends(self) -> None:
        """Messages of the newest version and of older ones."""
        sent = []
        for schema_id, version in [self.versions[-1], *self.draw.choices(self.versions, k=4)]:
            key = f"k{self.draw.random()}"
            sent.append((schema_id, version, random_row(self.draw, self.chain.format, version, key)))
        of = FORMATS[self.chain.format]
        self.topic.send([(None, of.message(version, row, schema_id)) for schema_id, version, row in sent])
        self.letters += len(self.expected.takes(sent))

    def is_there(self) -> bool:
        return bool(self.lake.instants()) and self.lake.rows().num_rows >= len(self.expected.rows)


@pytest.mark.parametrize("number", range(int(FIRST), int(LAST)))
def test_what_a_registry_calls_compatible_is_in_the_table_within_two_commits(
    spark: Any, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry, number: int
) -> None:
    chain = chain_of(number)
    topic = new_topic()
    registry = Real(schema_registry, f"{topic.name}-value", FORMATS[chain.format], chain.mode)
    flow = Flow(chain, random.Random(number), topic, registry, lake)
    assert flow.registers(chain.versions[0])
    flow.expected.starts(chain.versions[0])
    flow.sends()
    format_: dict[str, Any] = {"type": chain.format, "registry": {"url": schema_registry.url}}
    running = ingest_resource(spark, lake.resource(topic.source(), format=format_, table={"recordKey": ["id"]}))
    try:
        _until(running, flow.is_there)
        for version in chain.versions[1:]:
            if not flow.registers(version):
                continue
            before = len(lake.instants())
            flow.sends()
            _until(running, flow.is_there)
            assert len(lake.instants()) - before <= COMMITS_MAX
            same_rows(lake.rows(), flow.expected.rows)
        progress = running.progress()
    finally:
        running.request_stop()
        finish(running)
    assert len(flow.versions) > 1
    assert not flow.expected.refused
    assert flow.letters == flow.expected.rounded == len(lake.letters())
    assert (progress.rollbacks, progress.position_losses) == (0, 0)


def _until(running: Any, reached: Callable[[], Any]) -> None:
    for _ in range(600):
        assert not running.wait(0.1), "the query has ended"
        if reached():
            return
    raise AssertionError("it was not reached")
