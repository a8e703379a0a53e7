"""The generated files match the model, and every alert is complete: labels, texts, runbook, rule test."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.__main__ import FOLDER, contents, main
from monitoring.alerts import ALERTS
from monitoring.grafana_dashboards import BOARDS
from monitoring.grafana_rules import rule_uid
from monitoring.model import DOCS_URL, Alert, metrics_of
from support.monitoring.alert_scenarios import SCENARIOS

RUNBOOKS = Path(__file__).parents[3] / "docs" / "runbooks"


@pytest.mark.parametrize("name", contents())
def test_what_is_checked_in_is_what_the_model_makes(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == contents()[name], "run: make monitoring"


def test_check_says_which_file_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("monitoring.__main__.FOLDER", tmp_path)
    assert main(["--check"]) == 1
    assert "rules.yaml" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0


def prometheus_alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
class TestAlert:
    def test_has_severity_texts_and_runbook_address(self, alert: Alert) -> None:
        rule = prometheus_alerts()[alert.name]
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert all(rule["annotations"].values())
        assert re.fullmatch(r"BucketIngest[A-Z]\w+", alert.name)

    def test_has_a_runbook(self, alert: Alert) -> None:
        assert alert.runbook_url == f"{DOCS_URL}/runbooks/{alert.slug}/"
        page = (RUNBOOKS / f"{alert.slug}.md").read_text()
        assert page.startswith(f"# {alert.name}\n")
        for heading in ("Meaning", "First look", "Usual causes", "What to do", "When to escalate"):
            assert f"\n## {heading}\n" in page, f"{alert.slug}.md lacks {heading}"

    def test_has_rule_tests_of_both_kinds(self, alert: Alert) -> None:
        mine = [each for each in SCENARIOS if each.alert == alert.name]
        assert any(each.fires_at for each in mine)
        assert any(each.silent_at for each in mine)

    def test_uses_only_labels_that_its_result_has(self, alert: Alert) -> None:
        used = set(re.findall(r"\$labels\.(\w+)", alert.summary + alert.description))
        assert used <= set(alert.labels)

    def test_is_the_same_in_grafana_without_recorded_series(self, alert: Alert) -> None:
        assert "bucketingest:" not in alert.standalone
        assert metrics_of(alert.standalone) or "bucketingest:" in alert.expr
        groups = yaml.safe_load((FOLDER / "grafana-alerts.yaml").read_text())["groups"]
        (rule,) = [rule for group in groups for rule in group["rules"] if rule["title"] == alert.name]
        assert rule["data"][0]["model"]["expr"] == alert.standalone
        assert rule["labels"]["severity"] == alert.severity.value
        assert rule["uid"] == rule_uid(alert)
        assert len(rule["uid"]) <= 40


def test_every_runbook_belongs_to_an_alert() -> None:
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"index"}
    assert pages == {alert.slug for alert in ALERTS}


def test_every_scenario_belongs_to_an_alert() -> None:
    assert {each.alert for each in SCENARIOS} == {alert.name for alert in ALERTS}


def test_the_deletion_names_every_rule_that_the_provisioning_makes() -> None:
    made = yaml.safe_load((FOLDER / "grafana-alerts.yaml").read_text())
    deleted = yaml.safe_load((FOLDER / "grafana-alerts-delete.yaml").read_text())
    uids = [rule["uid"] for group in made["groups"] for rule in group["rules"]]
    assert [each["uid"] for each in deleted["deleteRules"]] == uids
    assert len(set(uids)) == len(uids) == len(ALERTS)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
class TestBoard:
    def test_is_a_dashboard_whose_panels_all_have_queries_and_words(self, board: Any) -> None:
        document = json.loads((FOLDER / f"{board.uid}.json").read_text())
        assert document["uid"] == board.uid
        panels = [each for each in document["panels"] if each["type"] != "row"]
        assert len(panels) == sum(len(row.panels) for row in board.rows)
        assert len({each["id"] for each in document["panels"]}) == len(document["panels"])
        for panel in panels:
            assert panel["title"]
            assert panel["description"]
            assert all(target["expr"] for target in panel["targets"])
            assert panel["datasource"] == {"type": "prometheus", "uid": "$datasource"}

    def test_has_no_overlapping_panels(self, board: Any) -> None:
        taken: set[tuple[int, int]] = set()
        for panel in json.loads((FOLDER / f"{board.uid}.json").read_text())["panels"]:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, panel["title"]
            assert place["x"] + place["w"] <= 24
            taken |= cells
