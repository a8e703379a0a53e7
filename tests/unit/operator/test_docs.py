"""docs/operator.md describes all options, metrics, failures, conditions and rights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bucketingest_operator.decide.failures import Failure
from bucketingest_operator.decide.status import ALL_CONDITIONS
from bucketingest_operator.main import _parser
from bucketingest_operator.metrics.resource_metrics import PHASES
from support.cluster import rights
from support.monitoring.exported import operator_families

TEXT = (Path(__file__).parents[3] / "docs" / "operator.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"[A-Za-z_]+", TEXT))


def metrics() -> set[str]:
    families = [each for each in operator_families() if each.name.startswith("bucketingest")]
    families = [each for each in families if not each.name.endswith("_created")]
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in families}


@pytest.mark.parametrize("name", sorted(metrics()))
def test_every_metric_is_described(name: str) -> None:
    assert name in NAMED


def test_every_metric_that_is_described_exists() -> None:
    described = {word for word in NAMED if word.startswith("bucketingest_") and word != "bucketingest_operator"}
    assert described == metrics()


@pytest.mark.parametrize("word", [*(each.value for each in Failure), *ALL_CONDITIONS])
def test_every_failure_and_condition_is_described(word: str) -> None:
    assert f"`{word}`" in TEXT


def test_the_script_for_argo_cd_names_conditions_and_phases_that_exist() -> None:
    script = TEXT.partition("```lua")[2].partition("```")[0]
    assert set(re.findall(r'(?:is|said)\("(\w+)"|found\["(\w+)"', script)) <= {
        pair for each in ALL_CONDITIONS for pair in ((each, ""), ("", each))
    }
    assert set(re.findall(r'phase == "(\w+)"', script)) <= set(PHASES)
    assert "Stalled" in script


def test_every_option_is_described() -> None:
    options = [name for action in _parser({})._actions for name in action.option_strings if name.startswith("--")]
    assert [name for name in options if name != "--help" and f"`{name}" not in TEXT] == []


def test_every_right_is_described() -> None:
    rules = (*rights.NAMESPACED, *rights.LEASE, *rights.CLUSTER)
    assert [each for rule in rules for each in rule["resources"] if f"`{each}`" not in TEXT] == []
