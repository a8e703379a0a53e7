"""The queries of both dashboards as Grafana would send them for one resource."""

from __future__ import annotations

import math
from collections.abc import Iterator

from devservers.prometheus import Prometheus
from monitoring.grafana_dashboards import BOARDS


def panel_queries(namespace: str, name: str, *, window: str = "20s") -> Iterator[tuple[str, str]]:
    """(where, expression) of every query. `window`: Grafana's rate interval."""
    for board in BOARDS:
        for row in board.rows:
            for panel in row.panels:
                for query in panel.queries:
                    expr = query.expr.replace("$__rate_interval", window)
                    yield (
                        f"{panel.title}: {query.legend or query.expr}",
                        expr.replace("$namespace", namespace).replace("$name", name),
                    )


def without_data(prometheus: Prometheus, namespace: str, name: str) -> list[str]:
    """Queries that return nothing, or only NaN."""
    return [
        where
        for where, expr in panel_queries(namespace, name)
        if not any(not math.isnan(float(sample["value"][1])) for sample in prometheus.query(expr))
    ]
