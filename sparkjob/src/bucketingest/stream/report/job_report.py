"""Progress as the document that `/progress` answers with."""

from __future__ import annotations

from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.services.compaction.propose import LogBacklog
from bucketingest.services.pods.waiting import PodWork
from bucketingest.spec.job_report import (
    LISTED_MAX,
    CommitReport,
    CompactionWork,
    InflightReport,
    LagReport,
    ProgressReport,
    ServicesReport,
    StateReport,
)
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.report.progress import Progress, latency


def progress_report(resource: BucketIngest, now: Progress) -> ProgressReport:
    """What a running job is doing. Pure."""
    inflight = None
    if now.inflight_instant is not None:
        inflight = InflightReport(instant=now.inflight_instant, age_seconds=now.inflight_age or 0.0)
    return ProgressReport(
        pipeline=resource.pipeline,
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        phase=now.phase.value,
        epoch=now.epoch,
        verdict=now.verdict,
        verdict_reason=now.verdict_reason,
        running_seconds=now.running_for,
        last_commit=_last_commit(now),
        inflight=inflight,
        lag=LagReport(offsets=now.lag_offsets, seconds=now.lag_seconds),
        source=now.source,
        files=now.files,
        schemas=now.schemas,
        idle=now.idle,
        batch=now.batch,
        batches=now.batches,
        commits=now.commits,
        rows=now.rows,
        deletes=now.deletes,
        dead_letters=now.rejected,
        bytes=now.size_bytes,
        rows_per_second=now.rows_per_second,
        skew=now.skew,
        services=_services(resource, now),
        catalogs=now.catalogs,
        state=_state(now),
        rollbacks=now.rollbacks,
        position_losses=now.position_losses,
        tables=now.tables,
        last_report_at=now.last_report_at,
        last_report_age_seconds=now.last_report_age,
    )


def _state(now: Progress) -> StateReport | None:
    if now.state is None:
        return None
    return StateReport(
        keys=now.state.keys,
        state_bytes=now.state.size_bytes,
        file_groups=now.state.file_groups,
        loaded_keys=now.state.loaded_keys,
        unloaded_partitions=now.state.unloaded_partitions,
        new_keys_in_logs=now.state.new_keys_in_logs,
    )


def _services(resource: BucketIngest, now: Progress) -> ServicesReport | None:
    services = now.services
    if services is None or not (
        services.backlog or services.compacting or services.pins or services.damage or services.failing
    ):
        return None
    backlog = services.backlog or LogBacklog()
    return ServicesReport(
        log_files=backlog.log_files,
        log_bytes=backlog.size,
        oldest_log_seconds=now.oldest_log_age,
        compacting=services.compacting,
        compacting_seconds=now.compacting_for,
        compactions=services.compactions,
        failures=services.failures,
        failing=services.failing,
        mode=resource.spec.services.chosen_mode,
        home=services.home,
        why=services.why,
        oldest_log_at=backlog.oldest_at,
        compacting_at=parse_time(services.compacting) if services.compacting else None,
        last_compaction=services.last_compaction,
        last_compaction_at=services.last_compaction_at,
        last_failure=services.last_failure,
        small_groups=None if services.small_groups is None else services.small_groups.groups,
        merged_groups=services.merged_groups,
        too_large=services.too_large,
        pins=services.pins[:LISTED_MAX],
        damaged_files=len(services.damage),
        damage=services.damage[:LISTED_MAX],
        job=_work(services.pod_work),
    )


def _work(work: PodWork | None) -> CompactionWork | None:
    if work is None:
        return None
    return CompactionWork(
        compaction=work.compaction,
        number=work.number,
        round=work.round_number,
        chunks=work.chunks,
        size=work.size,
    )


def _last_commit(now: Progress) -> CommitReport | None:
    if now.last is None or now.last_commit_at is None:
        return None
    return CommitReport(
        instant=now.last.instant_time,
        completion_time=now.last.completion_time,
        at=now.last_commit_at,
        rows=now.last.rows,
        micro_batches=now.last.micro_batches,
        latency_seconds=latency(now.last),
        age_seconds=now.last_commit_age or 0.0,
    )
