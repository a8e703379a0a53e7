"""What each runbook's commands print while its alert fires: every page is typed from top to bottom, in a situation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PageDrill:
    """One page.

    Attributes:
        story: The situation that has just been played.
        prints: A part of a command's line → what it must print. Of the other commands only the exit code is looked at;
            those of `bucketingest` itself, which are the same on several pages, are typed only where they are named.
    """

    story: str
    prints: Mapping[str, str]

    def types(self, line: str) -> bool:
        """Whether this command of the page is typed here."""
        named = any(part in line for part in self.prints)
        return named or not ("bucketingest " in line or line.startswith("helm"))


_OF_A_SLOW_STORE = "each commit takes two minutes: a slow store"
_MANY = "a table of many is refused, another one hangs, and a third is written"
PAGES: Final = {
    "base-files-late": PageDrill(
        "nothing is compacted, and base files are promised to be fresh",
        {'"ServicesHealthy"': "CompactionLate", "patch": "patched"},
    ),
    "bucket-skew": PageDrill("all rows go to one bucket", {"table.index": '"buckets":8'}),
    "catalog-late": PageDrill("a metastore is away", {'"CatalogSynced"': "it does not answer"}),
    "checkpoint-rebuilt": PageDrill(
        "the checkpoint is gone at a start", {"CheckpointHealthy": "the checkpoint was lost"}
    ),
    "commit-latency-fast-burn": PageDrill(_OF_A_SLOW_STORE, {"bucketingest top": "120.1s"}),
    "commit-latency-slow-burn": PageDrill("one commit in twenty takes two minutes", {"describe": "Latency Seconds"}),
    "commits-late": PageDrill("no node starts the driver of a new resource", {"get pods": "-driver"}),
    "commits-rolled-back": PageDrill("another writer rolls commits back", {"patch": "patched"}),
    "compaction-late": PageDrill(
        "nothing is compacted", {'"ServicesHealthy"': "CompactionLate", "bucketingest compact": "nothing is due"}
    ),
    "damaged-files": PageDrill(
        "a data file is deleted, and restored", {'"ServicesHealthy"': "InTime", "--accept-damage": "nothing is due"}
    ),
    "dead-letters": PageDrill("one poisoned message", {"spec.errors": "deadLetter"}),
    "freshness-fast-burn": PageDrill("no node starts the driver of a new resource", {"get bi": "orders"}),
    "freshness-slow-burn": PageDrill("each attempt runs out of memory before it commits", {"describe": "OutOfMemory"}),
    "lock-contention": PageDrill(
        "another writer holds the lock for a third of the time", {"custom-columns": "s3://lake/orders"}
    ),
    "many-dead-letters": PageDrill("one row in five is poison", {"spec.format": "BIGINT"}),
    "not-ready": PageDrill("each attempt runs out of memory before it commits", {'"Ready"': "spark.driver.memory"}),
    "operator-down": PageDrill("the operator is gone", {"get pods -A": "operator-0", "get lease": "bucketingest"}),
    "operator-errors": PageDrill("the API server denies requests", {"auth can-i": "yes"}),
    "pinned": PageDrill(
        "a dead instant of another writer holds the archive",
        {'"ServicesHealthy"': "of another writer is open"},
    ),
    "restart-storm": PageDrill(
        "each attempt runs out of memory before it commits", {"status.attempts": "\tOutOfMemory\t"}
    ),
    "rollback-failed": PageDrill(
        "a hung driver is stopped for good, and its open instant cannot be rolled back",
        {"get jobs": "rollback-1", "TimelineClean": "RollbackFailed"},
    ),
    "service-failures": PageDrill(
        "a step of table services fails each ten minutes", {'"ServicesHealthy"': "StepsFail"}
    ),
    "source-unavailable": PageDrill(
        "nothing comes for a week, a few rows do, and then the broker is away: nothing waited before",
        {'"Ready"': "kafka:9092 does not answer"},
    ),
    "spec-not-proven": PageDrill(
        "a changed spec never commits", {'"Degraded"': "SpecNotProven", "status.attempts": " Stuck "}
    ),
    "stalled": PageDrill("the topic lost messages: a person must act", {'"Stalled"': "SourceDataLost"}),
    "table-late": PageDrill(_MANY, {'"TablesHealthy"': "shop.hangs: late", "status.tables.worst": "shop.hangs\tlate"}),
    "tables-parked": PageDrill(
        _MANY, {'"TablesHealthy"': "8 buckets, the spec 4", "status.tables.worst": "shop.refused\tparked"}
    ),
    "stuck-inflight": PageDrill(
        "a paused pipeline hangs with an open instant",
        {
            "-o yaml": 'bucketingest.dev/pause: "true"',
            "bucketingest inspect": "has hung",
            "bucketingest rollback": "would",
        },
    ),
}
