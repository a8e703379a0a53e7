"""Metrics of the operator itself, and the registry that `/metrics` shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from bucketingest_operator.decide import plan

ACTIONS: Final = (
    plan.WriteStatus,
    plan.AddFinalizer,
    plan.RemoveFinalizer,
    plan.StartAttempt,
    plan.DeleteDriver,
    plan.DeleteExecutors,
    plan.DeleteAttempt,
    plan.CreateRollback,
    plan.EmitEvent,
)
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The operator's own metrics, which all exist from its start."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._seconds = Histogram(
            "bucketingest_operator_reconcile_seconds",
            "Duration of a pass over a resource.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._errors = Counter("bucketingest_operator_reconcile_errors", "Passes that failed.", registry=self.registry)
        self._actions = Counter(
            "bucketingest_operator_actions",
            "Actions tried, by result.",
            ("action", "result"),
            registry=self.registry,
        )
        for kind in ACTIONS:
            for result in ("done", "failed"):
                self._actions.labels(kind.__name__, result)

    def watch(
        self,
        *,
        leads: Callable[[], bool],
        resources: Callable[[], int],
        overdue: Callable[[], float],
        calls: Callable[[], int],
        unreadable: Callable[[], int],
        taken: Callable[[], int],
    ) -> None:
        """Read these values from other parts at each scrape."""
        shown: dict[str, tuple[str, Callable[[], float]]] = {
            "bucketingest_operator_leader": (
                "1 if this operator is the leader, 0 if it stands by.",
                lambda: float(leads()),
            ),
            "bucketingest_operator_resources": ("BucketIngests that are watched.", resources),
            "bucketingest_operator_queue_delay_seconds": ("How late the next pass is.", overdue),
            "bucketingest_operator_api_calls": ("Calls of the Kubernetes API since the start.", calls),
            "bucketingest_operator_unreadable_objects": (
                "How often an object could not be read and was left out, since the start.",
                unreadable,
            ),
            "bucketingest_operator_namespaces_taken": ("Watched namespaces in which another release acts.", taken),
        }
        for name, (text, value) in shown.items():
            Gauge(name, text, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)

    def took(self, seconds: float) -> None:
        """A pass has ended."""
        self._seconds.observe(seconds)

    def failed(self) -> None:
        """A pass has failed."""
        self._errors.inc()

    def acted(self, action: str, result: str) -> None:
        """An action was tried."""
        self._actions.labels(action, result).inc()
