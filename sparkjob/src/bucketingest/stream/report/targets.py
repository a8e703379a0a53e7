"""The limits that a resource sets, with which a job's figures are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bucketingest.spec.model import BucketIngest


@dataclass(frozen=True, slots=True)
class Targets:
    """Of one resource. Times in seconds."""

    commit_latency: float = 60.0
    commit_lag_limit: float = 300.0
    inflight_age_limit: float = 600.0
    buffer_bytes_limit: int = 256 * 1024**2
    buckets: int = 1
    """0: the table has none."""
    log_age_limit: float | None = None
    """None: the job does not compact the table."""
    read_optimized_limit: float | None = None
    """None: nothing is promised to readers of base files."""
    checkpoint_stays: bool = True
    """False: a missing checkpoint at the next start is expected: it is on the driver's disk, the table is not."""

    @classmethod
    def of(cls, resource: BucketIngest) -> Targets:
        """The limits of a resource."""
        spec = resource.spec
        return cls(
            commit_latency=spec.slo.commit_latency.total_seconds(),
            commit_lag_limit=spec.health.max_commit_lag.total_seconds(),
            inflight_age_limit=spec.health.max_inflight_age.total_seconds(),
            buffer_bytes_limit=spec.table.memory_per_task,
            buckets=spec.table.index.buckets if spec.table.index.type == "bucket" else 0,
            log_age_limit=spec.services.compaction.log_age.total_seconds() if spec.services.run else None,
            read_optimized_limit=None
            if (promise := spec.slo.read_optimized_freshness) is None
            else promise.total_seconds(),
            checkpoint_stays=_is_local(resource.checkpoint_path) == _is_local(spec.table.path),
        )


def _is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file:")


LIMITS: Final[tuple[tuple[str, str, Callable[[Targets], float | None]], ...]] = (
    ("log_age_limit_seconds", "services.compaction.logAge of the resource.", lambda wanted: wanted.log_age_limit),
    (
        "read_optimized_limit_seconds",
        "slo.readOptimizedFreshness of the resource.",
        lambda wanted: wanted.read_optimized_limit,
    ),
    ("commit_lag_limit_seconds", "health.maxCommitLag of the resource.", lambda wanted: wanted.commit_lag_limit),
    ("inflight_age_limit_seconds", "health.maxInflightAge of the resource.", lambda wanted: wanted.inflight_age_limit),
    ("buffer_limit_bytes", "table.memoryPerTask of the resource.", lambda wanted: wanted.buffer_bytes_limit),
    ("checkpoint_stays", "0 if Spark's checkpoint is deleted with the driver.", lambda wanted: wanted.checkpoint_stays),
)
"""Name, text and value of each as a metric; None: there is none."""
