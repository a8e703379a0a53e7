"""Names of the series that the job and the operator export."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from bucketingest.stream.report.metrics import JobMetrics
from bucketingest.stream.report.progress import Progress
from bucketingest_operator.metrics.operator_metrics import Metrics
from bucketingest_operator.metrics.resource_metrics import ResourceMetrics
from bucketingest_operator.observe.inventory import Inventory

ENDINGS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}


def names(families: Iterable[Metric]) -> set[str]:
    """Names of the series that the families have."""
    return {f"{each.name}{ending}" for each in families for ending in ENDINGS.get(each.type, ("",))}


def of_job() -> set[str]:
    """Of a driver."""
    metrics = JobMetrics(namespace="shop", name="orders", pipeline="shop/orders")
    metrics.watch(lambda: Progress(0.0))
    return names(text_string_to_metric_families(metrics.exposition().decode()))


def of_operator() -> set[str]:
    """Of an operator."""
    return names(operator_families())


def operator_families() -> Iterable[Metric]:
    """All that an operator exports, its process's too."""
    metrics = Metrics()
    metrics.watch(
        leads=lambda: True,
        resources=lambda: 0,
        overdue=lambda: 0.0,
        calls=lambda: 0,
        unreadable=lambda: 0,
        taken=lambda: 0,
    )
    of_resources = ResourceMetrics(Inventory(lambda _: None, lambda _: None), lambda _: None, lambda _namespace: True)
    return text_string_to_metric_families((metrics.text() + of_resources.text()).decode())
