"""The queries of both dashboards as Grafana would send them for one resource."""

from __future__ import annotations

import math
from collections.abc import Iterator

from devservers.prometheus import Prometheus
from monitoring.grafana_dashboards import BOARDS
from monitoring.table_rows import INDEX, TABLES


def panel_queries(
    namespace: str, name: str, *, window: str = "20s", of_state: bool = False
) -> Iterator[tuple[str, str]]:
    """(where, expression) of the queries that a table with buckets has data for, or of those about an index with a
    state. `window`: Grafana's rate interval.
    """
    for board in BOARDS:
        for row in (row for row in board.rows if row is not TABLES and (row is INDEX) == of_state):
            for panel in row.panels:
                for query in panel.queries:
                    expr = query.expr.replace("$__rate_interval", window)
                    yield (
                        f"{panel.title}: {query.legend or query.expr}",
                        expr.replace("$namespace", namespace).replace("$name", name),
                    )


def without_data(prometheus: Prometheus, namespace: str, name: str, *, of_state: bool = False) -> list[str]:
    """Queries that return nothing, or only NaN."""
    return [
        where
        for where, expr in panel_queries(namespace, name, of_state=of_state)
        if not any(not math.isnan(float(sample["value"][1])) for sample in prometheus.query(expr))
    ]
