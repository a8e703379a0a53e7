"""The alerts as Grafana-managed rules, for evaluation in Grafana, and the file that deletes them.

Grafana keeps a provisioned rule after its file is deleted; only a file with `deleteRules` deletes it. Format: Grafana's
file provisioning, apiVersion 1. There `$labels` in annotations stays as it is, and `${NAME}` becomes an environment
variable.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from monitoring.alerts import ALERTS, GROUPS
from monitoring.documents import to_yaml
from monitoring.model import Alert

DATASOURCE: Final = "${BUCKETINGEST_DATASOURCE_UID}"
"""The chart replaces it; without the chart Grafana takes it from its environment."""
FOLDER: Final = "bucketingest"
_EXPRESSION: Final = "__expr__"
_ORGANISATION: Final = 1


def rule_uid(alert: Alert) -> str:
    """Depends only on the alert's name: Grafana keeps the rule of a renamed alert; at most 40 characters."""
    return f"bucketingest-{hashlib.sha256(alert.name.encode()).hexdigest()[:12]}"


def rules_document() -> dict[str, Any]:
    """The provisioning file: one group for each of Prometheus' groups of alerts."""
    groups = [
        {
            "orgId": _ORGANISATION,
            "name": name,
            "folder": FOLDER,
            "interval": "30s",
            "rules": [_rule(alert) for alert in group],
        }
        for name, group in GROUPS.items()
    ]
    return {"apiVersion": 1, "groups": groups}


def deletion_document() -> dict[str, Any]:
    """The file that removes every rule of `rules_document`."""
    return {"apiVersion": 1, "deleteRules": [{"orgId": _ORGANISATION, "uid": rule_uid(alert)} for alert in ALERTS]}


def rules_yaml() -> str:
    """The text of `grafana-alerts.yaml`."""
    return to_yaml(rules_document())


def deletion_yaml() -> str:
    """The text of `grafana-alerts-delete.yaml`."""
    return to_yaml(deletion_document())


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "uid": rule_uid(alert),
        "title": alert.name,
        # Prometheus fires for every result; Grafana only for one that is not 0, and a result may be 0.
        "condition": "B",
        "data": [
            _query("A", DATASOURCE, {"expr": alert.standalone, "instant": True, "intervalMs": 1000}),
            _query("B", _EXPRESSION, {"type": "math", "expression": "is_number($A)"}),
        ],
        "noDataState": "OK",
        "execErrState": "Error",
        "for": alert.wait,
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": _in_grafana(alert.summary),
            "description": alert.description,
            "runbook_url": alert.runbook_url,
        },
    }


def _query(ref_id: str, datasource: str, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "refId": ref_id,
        "relativeTimeRange": {"from": 600, "to": 0},
        "datasourceUid": datasource,
        "model": {"refId": ref_id, **model},
    }


def _in_grafana(template: str) -> str:
    """Grafana's `$value` is a text with all values; the number is the query's."""
    return template.replace("$value", "$values.A.Value")
