"""Rules, dashboards and Grafana's alerts as the chart installs them, for those who ask for them."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import yaml

from devcluster.binaries import find_tool
from devcluster.release import CHART
from monitoring.grafana_dashboards import BOARDS
from support.monitoring.exported import of_job, of_operator

Manifest = dict[str, Any]


def rendered(*values: str) -> dict[tuple[str, str], Manifest]:
    """What the chart makes of these values: (kind, name) → manifest. No cluster is asked."""
    command = [find_tool("helm"), "template", "x", str(CHART), "--kube-version", "1.36.0"]
    command += [word for value in values for word in ("--set", f"monitoring.{value}")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    manifests = filter(None, yaml.safe_load_all(done.stdout))
    return {(each["kind"], each["metadata"]["name"]): each for each in manifests}


def test_the_chart_has_rules_and_dashboards_for_those_who_want_them() -> None:
    rules, boards, alerts = (
        ("PrometheusRule", "x-bucketingest"),
        ("ConfigMap", "x-bucketingest-dashboards"),
        ("ConfigMap", "x-bucketingest-alerts"),
    )
    assert not {rules, boards, alerts} & rendered().keys()
    made = rendered(
        "prometheusRule.enabled=true",
        "prometheusRule.labels.release=prom",
        "dashboards.enabled=true",
        "grafanaAlerts.enabled=true",
        "grafanaAlerts.datasourceUid=p1",
        "docsUrl=https://docs.example.org/here/",
    )
    assert made[rules]["metadata"]["labels"]["release"] == "prom"
    texts = [
        rule["annotations"] for group in made[rules]["spec"]["groups"] for rule in group["rules"] if "alert" in rule
    ]
    assert texts
    assert all(each["runbook_url"].startswith("https://docs.example.org/here/runbooks/") for each in texts)
    assert all("{{" in each["summary"] for each in texts if "operator" not in each["summary"])
    assert {json.loads(text)["uid"] for text in made[boards]["data"].values()} == {board.uid for board in BOARDS}
    (provisioning,) = made[alerts]["data"].values()
    queries = [rule["data"][0] for group in yaml.safe_load(provisioning)["groups"] for rule in group["rules"]]
    assert {query["datasourceUid"] for query in queries} == {"p1"}
    (deletion,) = rendered("grafanaAlerts.enabled=true", "grafanaAlerts.delete=true")[alerts]["data"].values()
    assert len(yaml.safe_load(deletion)["deleteRules"]) == len(queries)


def test_a_driver_cannot_write_series_of_another_tenant() -> None:
    made = rendered("podMonitor.enabled=true")
    (endpoint,) = made["PodMonitor", "x-bucketingest-drivers"]["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is False
    assert [each["targetLabel"] for each in endpoint["relabelings"]] == ["name"]
    keep, drop = endpoint["metricRelabelings"][-2:]
    assert (keep["action"], drop["action"]) == ("keep", "drop")

    def passes(name: str) -> bool:
        return re.fullmatch(keep["regex"], name) is not None and re.fullmatch(drop["regex"], name) is None

    assert [name for name in of_job() if not passes(name)] == []
    assert [name for name in of_operator() if passes(name)] == []
    assert not passes("bucketingest:slo_errors:ratio_rate5m"), "a recorded series"
    limits = made["PodMonitor", "x-bucketingest-drivers"]["spec"]
    assert (limits["sampleLimit"], limits["labelLimit"], limits["bodySizeLimit"]) == (10000, 32, "4MB")
    (operator,) = made["PodMonitor", "x-bucketingest-operator"]["spec"]["podMetricsEndpoints"]
    assert operator["honorLabels"] is True


def test_the_rules_ask_the_operators_own_job() -> None:
    values = ("prometheusRule.enabled=true", "grafanaAlerts.enabled=true", "grafanaAlerts.datasourceUid=p1")
    made = rendered(*values)
    for manifest in (made["PrometheusRule", "x-bucketingest"], made["ConfigMap", "x-bucketingest-alerts"]):
        text = yaml.safe_dump(manifest, width=10_000)
        assert "job=" in text
        assert re.findall(r"job=\W*([\w/-]+)", text) == ["default/x-bucketingest-operator"]
