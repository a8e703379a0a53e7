"""How each table is, and the tables together, in the words of `/progress`."""

from __future__ import annotations

from collections.abc import Sequence

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.spec.fields.tables import PLACEHOLDER
from bucketingest.spec.job_report import LISTED_MAX, LagReport, TableReport, TablesReport
from bucketingest.stream.tables.one_table import OneTable


def report_of(table: OneTable, path: str) -> TableReport:
    """How a table is. `path`: of all tables, with the place of the topic."""
    now, trouble, unknown = table.board.snapshot(), table.trouble, table.opening_seconds
    state = "gone" if table.is_gone else "parked" if trouble else "opening" if unknown else "open"
    lag = unknown if state == "opening" else now.lag_seconds  # until then nobody knows how much waits
    return TableReport(
        topic=table.topic,
        table=path.replace(PLACEHOLDER, table.topic),
        state=state,  # type: ignore[arg-type] # one of the four
        reason=None if trouble is None else trouble.reason,
        failures=0 if trouble is None else trouble.failures,
        again_seconds=None if trouble is None else max(0.0, round(trouble.again_at - forward_seconds(), 3)),
        lag=LagReport(offsets=now.lag_offsets, seconds=None if lag is None else round(lag, 3)),
        rows=now.rows,
        commits=now.commits,
        last_commit_seconds=None if now.last_commit_age is None else round(now.last_commit_age, 3),
    )


def summary(each: Sequence[TableReport], late_after: float, left_out: int) -> TablesReport:
    """How the tables are; the first ten of them in the order of need. `late_after`: seconds of lag."""
    worst = sorted(each, key=lambda one: (one.state != "parked", -(one.lag.seconds or 0), -(one.lag.offsets or 0)))
    states = [one.state for one in each]
    return TablesReport(
        known=len(each),
        open=states.count("open"),
        parked=states.count("parked"),
        gone=states.count("gone"),
        late=sum(one.state in {"open", "opening"} and (one.lag.seconds or 0) > late_after for one in each),
        left_out=left_out,
        worst=tuple(worst[:LISTED_MAX]),
    )
