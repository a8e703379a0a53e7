"""The job or the operator exports every metric in a rule or a panel."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from bucketingest.stream.report.metrics import JobMetrics
from bucketingest.stream.report.progress import Progress
from bucketingest_operator.metrics.operator_metrics import Metrics
from bucketingest_operator.metrics.resource_metrics import ResourceMetrics
from bucketingest_operator.observe.inventory import Inventory
from monitoring.alerts import ALERTS
from monitoring.grafana_dashboards import BOARDS
from monitoring.model import metrics_of
from monitoring.slo import RECORDED

ENDINGS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}


def names(families: Iterable[Metric]) -> set[str]:
    """Names of the series that the families have."""
    return {f"{each.name}{ending}" for each in families for ending in ENDINGS.get(each.type, ("",))}


def of_job() -> set[str]:
    metrics = JobMetrics(namespace="shop", name="orders", pipeline="shop/orders")
    metrics.watch(lambda: Progress(0.0))
    return names(text_string_to_metric_families(metrics.exposition().decode()))


def of_operator() -> set[str]:
    metrics = Metrics()
    metrics.watch(leads=lambda: True, resources=lambda: 0, overdue=lambda: 0.0, calls=lambda: 0, unreadable=lambda: 0)
    of_resources = ResourceMetrics(Inventory(lambda _: None, lambda _: None), lambda _: None, lambda _namespace: True)
    return names(text_string_to_metric_families(metrics.text().decode() + of_resources.text()))


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
