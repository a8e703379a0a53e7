"""Every alert, evaluated by Prometheus: it fires when it should, and is silent when it should be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bucketingest.spec.quantity import parse_duration
from monitoring.alerts import ALERTS
from monitoring.model import Alert
from support.monitoring.alert_scenarios import SCENARIOS
from support.monitoring.promtool import groups_in_order, promtool, rules_file
from support.monitoring.scenarios.scenario import Scenario

RECORDED = re.compile(r"bucketingest:\w+:\w+")


def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", rules_file())
    assert checked.returncode == 0, checked.stdout


def only(alert: str, folder: Path) -> Path:
    """The checked-in rules that the alert needs: more would be evaluated thousands of times."""
    groups = yaml.safe_load(rules_file().read_text())["groups"]
    rules = {rule.get("record", rule.get("alert")): rule for group in groups for rule in group["rules"]}
    needed, open_ends = {alert}, [alert]
    while open_ends:
        for name in RECORDED.findall(rules[open_ends.pop()]["expr"]):
            if name not in needed:
                needed.add(name)
                open_ends.append(name)
    kept = [
        {**group, "rules": [rule for name, rule in rules.items() if name in needed and rule in group["rules"]]}
        for group in groups
    ]
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [group for group in kept if group["rules"]]}))
    return file


def rule_test(scenario: Scenario, folder: Path, **judged: Any) -> Path:
    document = {
        "rule_files": [str(only(scenario.alert, folder))],
        "evaluation_interval": "30s",
        "group_eval_order": groups_in_order(),
        "tests": [
            {
                "interval": scenario.step,
                "input_series": [{"series": name, "values": values} for name, values in scenario.series.items()],
                **judged,
            }
        ],
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def firing(scenario: Scenario, times: Iterable[str], *, fires: bool) -> list[dict[str, Any]]:
    by = ", ".join(scenario.labels)
    labels = ", ".join(f'{name}="{value}"' for name, value in scenario.labels.items())
    expr = f'count by ({by}) (ALERTS{{alertname="{scenario.alert}", alertstate="firing"}})'
    samples = [{"labels": f"{{{labels}}}", "value": 1}] if fires else []
    return [{"expr": expr, "eval_time": time, "exp_samples": samples} for time in times]


@pytest.mark.parametrize("scenario", [pytest.param(each, id=f"{each.alert}: {each.story}") for each in SCENARIOS])
def test_an_alert_fires_only_when_it_should(scenario: Scenario, tmp_path: Path) -> None:
    looks = [*firing(scenario, scenario.fires_at, fires=True), *firing(scenario, scenario.silent_at, fires=False)]
    assert looks, "a scenario needs times to check"
    tested = promtool("test", "rules", rule_test(scenario, tmp_path, promql_expr_test=looks))
    assert tested.returncode == 0, tested.stdout


INLINE = {alert.name: alert.inline for alert in ALERTS if alert.inline}


@pytest.mark.parametrize(
    "scenario", [pytest.param(each, id=f"{each.alert}: {each.story}") for each in SCENARIOS if each.alert in INLINE]
)
def test_grafanas_expressions_give_the_same_without_recorded_series(scenario: Scenario, tmp_path: Path) -> None:
    # What holds only for a moment is not an alert yet, although the expression is true.
    silent = [time for time in scenario.silent_at if parse_duration(time) > timedelta(minutes=20)]
    looks = [*firing(scenario, scenario.fires_at, fires=True), *firing(scenario, silent, fires=False)]
    expr = f"count by ({', '.join(scenario.labels)}) ({INLINE[scenario.alert]})"
    asked = [{**look, "expr": expr} for look in looks]
    tested = promtool("test", "rules", rule_test(scenario, tmp_path, promql_expr_test=asked))
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alerts_text_names_the_resource_and_is_complete(alert: Alert, tmp_path: Path) -> None:
    """Promtool shows the actual alerts if none is expected."""
    scenario = next(each for each in SCENARIOS if each.alert == alert.name and each.fires_at)
    none = [{"alertname": alert.name, "eval_time": scenario.fires_at[0], "exp_alerts": []}]
    shown = promtool("test", "rules", rule_test(scenario, tmp_path, alert_rule_test=none)).stdout
    assert alert.runbook_url in shown
    assert "error expanding" not in shown
    assert "{{" not in shown
    assert "<no value>" not in shown
    if "name" in alert.labels:
        assert 'summary="shop/orders' in shown
