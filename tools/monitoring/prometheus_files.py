"""The rules as Prometheus reads them: `groups` of recorded series and alerts, the spec of a PrometheusRule."""

from __future__ import annotations

from typing import Any

from monitoring.alerts import GROUPS
from monitoring.documents import to_yaml
from monitoring.model import Alert, RecordedSeries
from monitoring.slo import RECORDED


def rules_document() -> dict[str, Any]:
    """The groups; series that alerts read are recorded in a group before them."""
    recorded = {"name": "bucketingest.recorded", "interval": "30s", "rules": [_recorded(each) for each in RECORDED]}
    alerts = [{"name": name, "rules": [_alert(alert) for alert in group]} for name, group in GROUPS.items()]
    return {"groups": [recorded, *alerts]}


def rules_yaml() -> str:
    """The text of `rules.yaml`."""
    return to_yaml(rules_document())


def _recorded(series: RecordedSeries) -> dict[str, Any]:
    return {"record": series.name, "expr": series.expr}


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.wait,
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook_url": alert.runbook_url,
        },
    }
