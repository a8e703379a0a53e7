"""The fleet: which resource has a problem, and which one, on one screen."""

from __future__ import annotations

from typing import Final

from monitoring.model import Board, Panel, Query, Row
from monitoring.panel_parts import BY, PHASE_WORDS, condition, over, phase_number, quantile, trouble
from monitoring.slo import GOOD, TOTAL

UID: Final = "bucketingest-fleet"
RESOURCE_UID: Final = "bucketingest-resource"
_WHO: Final = 'namespace=~"$namespace"'
_NAME: Final = "{{namespace}}/{{name}}"


def _each(title: str, description: str, expr: str, **more: object) -> Panel:
    return Panel(title, description, (Query(expr, _NAME),), **more)  # type: ignore[arg-type] # as Panel has them


NOW: Final = Row(
    "Now",
    (
        Panel(
            "Resources",
            "BucketIngests that the operator watches.",
            (Query("max(bucketingest_operator_resources)"),),
            kind="stat",
            width=4,
            height=4,
        ),
        Panel(
            "Ready",
            "Resources whose rows become visible in time.",
            (Query(f"count({condition('Ready', _WHO)} == 1) or vector(0)"),),
            kind="stat",
            width=4,
            height=4,
        ),
        Panel(
            "Not ready",
            "Neither ready nor suspended nor completed.",
            (Query(f"count({trouble(_WHO)} >= 10) or vector(0)"),),
            kind="stat",
            width=4,
            height=4,
            steps=((1, "orange"),),
        ),
        Panel(
            "Stalled",
            "The operator waits for a person.",
            (Query(f"count({condition('Stalled', _WHO)} == 1) or vector(0)"),),
            kind="stat",
            width=4,
            height=4,
            steps=((1, "red"),),
        ),
        Panel(
            "Rows per second",
            "All resources together.",
            (Query(f"sum(rate(bucketingest_resource_rows_total{{{_WHO}}}[$__rate_interval]))"),),
            kind="stat",
            unit="rps",
            width=4,
            height=4,
        ),
        Panel(
            "Operator is leader",
            "Operators that hold the Lease; there must be one.",
            (Query("sum(bucketingest_operator_leader)"),),
            kind="stat",
            width=4,
            height=4,
            words={"0": "no leader", "1": "yes"},
        ),
        Panel(
            "Resources by trouble",
            "The worst first. Trouble: 100 stalled, 10 not ready, 1 commits late. Click a name to see why.",
            (
                Query(trouble(_WHO), "trouble"),
                Query(phase_number(_WHO), "phase"),
                Query(f"max {BY} (bucketingest_commit_lag_seconds{{{_WHO}}})", "no commit for"),
                Query(f"max {BY} (bucketingest_resource_inflight_age_seconds{{{_WHO}}})", "inflight for"),
                Query(
                    f"1 - {over('increase', GOOD, _WHO, '1h')} / {over('increase', TOTAL, _WHO, '1h')}",
                    "late commits, 1 h",
                ),
                Query(f"max {BY} (bucketingest_attempt{{{_WHO}}})", "attempt"),
                Query(over("increase", "bucketingest_restarts_total", _WHO, "1h"), "restarts, 1 h"),
                Query(over("increase", "bucketingest_resource_dead_letters_total", _WHO, "1h"), "dead letters, 1 h"),
                Query(f"max {BY} (bucketingest_resource_skew_ratio{{{_WHO}}})", "skew"),
            ),
            kind="table",
            width=24,
            height=10,
            words=PHASE_WORDS,
            link=RESOURCE_UID,
        ),
        _each(
            "Phases",
            "Phase of each resource over time.",
            phase_number(_WHO),
            kind="states",
            width=24,
            height=8,
            words=PHASE_WORDS,
        ),
    ),
)

COMMITS: Final = Row(
    "Commits",
    (
        _each(
            "No commit for",
            "Time since the last commit while input waits; 0 if there is none.",
            f"max {BY} (bucketingest_commit_lag_seconds{{{_WHO}}})",
            unit="s",
        ),
        _each(
            "Commit latency, p99",
            "From the request of an instant, with its first rows, to its completion.",
            quantile(0.99, "bucketingest_commit_latency_seconds", _WHO, "namespace, name"),
            unit="s",
        ),
        _each(
            "Late commits",
            "Share of commits of the last hour that took longer than slo.commitLatency.",
            f"1 - {over('rate', GOOD, _WHO, '1h')} / {over('rate', TOTAL, _WHO, '1h')}",
            unit="percentunit",
        ),
        _each(
            "Inflight for",
            "Age of the open instant.",
            f"max {BY} (bucketingest_resource_inflight_age_seconds{{{_WHO}}})",
            unit="s",
        ),
        _each(
            "Rows per second",
            "Rows received, committed or not.",
            over("rate", "bucketingest_resource_rows_total", _WHO),
            unit="rps",
            stacked=True,
        ),
        _each(
            "Lag in offsets",
            "Kafka: offsets that are not committed.",
            f"max {BY} (bucketingest_resource_lag_offsets{{{_WHO}}})",
            needs="kafka",
        ),
    ),
)

FAILURES: Final = Row(
    "Failures",
    (
        Panel(
            "Restarts by class",
            "Ends of attempts, by what ended them.",
            (Query(over("increase", "bucketingest_restarts_total", _WHO, by="class"), "{{class}}"),),
            stacked=True,
        ),
        Panel(
            "Rollback Jobs",
            "By their result.",
            (Query(over("increase", "bucketingest_rollback_jobs_total", _WHO, by="result"), "{{result}}"),),
            stacked=True,
        ),
        _each(
            "Dead letters",
            "Rows per second that do not decode or have no record key.",
            over("rate", "bucketingest_resource_dead_letters_total", _WHO),
            unit="rps",
        ),
    ),
)

OPERATOR: Final = Row(
    "Operator",
    (
        Panel(
            "A pass over one resource",
            "Duration of a pass, from observation to actions.",
            tuple(
                Query(quantile(share, "bucketingest_operator_reconcile_seconds", ""), f"p{share * 100:.0f}")
                for share in (0.5, 0.99)
            ),
            unit="s",
        ),
        Panel(
            "Passes and errors",
            "Per second.",
            (
                Query("sum(rate(bucketingest_operator_reconcile_seconds_count[$__rate_interval]))", "passes"),
                Query("sum(rate(bucketingest_operator_reconcile_errors_total[$__rate_interval]))", "errors"),
            ),
        ),
        Panel(
            "Actions",
            "Actions of the operator, by result.",
            (
                Query(
                    "sum by (action, result) (increase(bucketingest_operator_actions_total[$__rate_interval]))",
                    "{{action}} {{result}}",
                ),
            ),
            stacked=True,
        ),
    ),
)

FLEET: Final = Board(
    UID,
    "bucketingest: fleet",
    "All BucketIngests: which one has a problem, and which one.",
    {"namespace": "label_values(bucketingest_resource_info, namespace)"},
    (NOW, COMMITS, FAILURES, OPERATOR),
    many=True,
)
