"""Random chains of schemas in each compatibility mode of a real registry, in each format, with crashes, compactions and
Hudi's own writer between: hudi-rs and Hudi's Spark readers show the rows that the rules promise.

BUCKETINGEST_REAL_CHAINS=0-210 plays these instead; `make chains-real` plays many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devservers.registry import SchemaRegistry
from support.evolution.process import Played
from support.evolution.runs import Judges, played_all
from support.oracle.client import HudiOracle

pytestmark = pytest.mark.hudi

FIRST, _, LAST = os.environ.get("BUCKETINGEST_REAL_CHAINS", "0-21").partition("-")


@pytest.fixture
def judges(hudi: HudiOracle) -> Iterator[Judges]:
    with SchemaRegistry() as registry:
        yield Judges(registry, hudi)


def test_all_readers_show_what_a_registrys_versions_have(judges: Judges) -> None:
    wrong = {
        number: found for number, found in played_all(range(int(FIRST), int(LAST)), judges) if not _is_right(found)
    }
    assert not wrong, "each number is a SEED of `make chains-real`"


def _is_right(found: Played | Exception) -> bool:
    return isinstance(found, Played) and found.reads is not None and found.versions > 0
