"""The job or the operator exports every metric in a rule or a panel."""

from __future__ import annotations

import pytest

from monitoring.alerts import ALERTS
from monitoring.grafana_dashboards import BOARDS
from monitoring.model import metrics_of
from monitoring.slo import RECORDED
from support.monitoring.exported import of_job, of_operator

VARIABLES = {f"{board.uid}: ${name}": query for board in BOARDS for name, query in board.variables.items()}
EXPORTED = of_job() | of_operator()
EXPRESSIONS = {
    **VARIABLES,
    **{f"alert {alert.name}": alert.expr + alert.standalone for alert in ALERTS},
    **{f"recorded {each.name}": each.expr for each in RECORDED},
    **{
        f"{board.uid}: {row.title}: {panel.title}": " ".join(query.expr for query in panel.queries)
        for board in BOARDS
        for row in board.rows
        for panel in row.panels
    },
}


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_every_metric_in_a_query_exists(where: str) -> None:
    asked = metrics_of(EXPRESSIONS[where])
    assert asked <= EXPORTED
    assert asked or "bucketingest:" in EXPRESSIONS[where]


def test_job_and_operator_have_no_metric_of_the_same_name() -> None:
    assert not of_job() & of_operator()
