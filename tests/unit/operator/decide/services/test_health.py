"""The condition ServicesHealthy: each reason, once as an event, and what has no reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pytest

from bucketingest.spec.job_report import CompactionWork, DamagedFile, Pin, ServicesReport
from bucketingest_operator.decide.plan import EmitEvent
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.services.health import judge_services
from bucketingest_operator.observation import CompactionJob, Contact, JobState, Observation, Refusal
from support.operator.observations import NAMES, NOW, after, report, services, well

WORK = CompactionWork(compaction="20261121115000000", number=3, round=1, chunks=4, size=10**10)
NAME = NAMES.compaction(3, 1)
LONG_AGO, LATELY = NOW - timedelta(hours=2), NOW - timedelta(minutes=2)

DAMAGED = DamagedFile(file="eu/a.parquet", file_group="a", instant="20261121110000000", problem="it is gone")


def pin(service: Literal["clean", "archive"], hours: float) -> Pin:
    return Pin(service=service, by="the file group a cannot be merged", seconds=hours * 3600)


def job(**changes: Any) -> CompactionJob:
    found = CompactionJob(NAME, 3, 1, "digest", JobState.RUNNING, LATELY, active=2, ready=2)
    return replace(found, **changes)


def wants(**changes: Any) -> ServicesReport:
    return services(job=WORK, compacting=WORK.compaction, compacting_at=LATELY, **changes)


def seen(*jobs: CompactionJob, refusals: tuple[Refusal, ...] = ()) -> Observation:
    return replace(well(), compaction_jobs=jobs, refusals=refusals)


@pytest.mark.parametrize(
    ("observation", "said", "value", "reason"),
    [
        (seen(), services(), "True", "InTime"),
        (seen(), services(oldest_log_at=None), "True", "InTime"),
        (seen(), services(oldest_log_at=LONG_AGO), "False", "CompactionLate"),
        (seen(), services(compacting=WORK.compaction, compacting_at=LONG_AGO), "False", "CompactionLate"),
        (seen(), services(home=None, why="another writer compacts", oldest_log_at=LONG_AGO), "Unknown", "LeftToHudi"),
        (seen(), services(failing=1, last_failure="no answer", oldest_log_at=None), "True", "InTime"),
        (seen(), services(failing=2, last_failure="no answer", oldest_log_at=LONG_AGO), "False", "StepsFail"),
        (seen(), services(damaged_files=1, damage=(DAMAGED,)), "False", "DataFilesDamaged"),
        (seen(), services(oldest_log_at=LONG_AGO, damaged_files=20, damage=(DAMAGED,)), "False", "DataFilesDamaged"),
        (seen(), services(too_large="a of partition 'eu'", pins=(pin("archive", 9),)), "False", "FileGroupTooLarge"),
        (seen(), services(pins=(pin("clean", 7), pin("archive", 8))), "False", "ArchivePinned"),
        (seen(), services(pins=(pin("clean", 7), pin("archive", 5))), "False", "CleanPinned"),
        (seen(), services(pins=(pin("clean", 5), pin("archive", 5))), "True", "InTime"),
        (seen(), wants(pins=(pin("archive", 7),)), "False", "ArchivePinned"),
        (seen(), wants(), "True", "Compacting"),
        (seen(job()), wants(), "True", "Compacting"),
        (seen(refusals=(Refusal(NAME, "exceeded quota", LATELY),)), wants(), "False", "JobRefused"),
        (seen(refusals=(Refusal("another", "exceeded quota", LATELY),)), wants(), "True", "Compacting"),
        (seen(job(), refusals=(Refusal(NAME, "exceeded quota", LATELY),)), wants(), "True", "Compacting"),
        (seen(job(state=JobState.FAILED, message="BackoffLimitExceeded")), wants(), "False", "JobFailed"),
        (seen(job(active=0, ready=0)), wants(), "False", "JobWithoutPods"),
        (seen(job(active=0, ready=0, created_at=NOW)), wants(), "True", "Compacting"),
        (seen(job(ready=0)), wants(), "True", "Compacting"),
        (seen(job(ready=0, created_at=LONG_AGO)), wants(), "False", "JobPodsWait"),
        (seen(job(active=1, ready=1, created_at=LONG_AGO)), wants(), "True", "Compacting"),
    ],
)
def test_what_is_wrong(observation: Observation, said: ServicesReport, value: str, reason: str) -> None:
    assert judge_services(observation, said, timedelta(hours=1), NAMES)[:2] == (value, reason)


def test_a_trouble_is_an_event_once() -> None:
    late = services(oldest_log_at=LONG_AGO)
    first = reconcile(replace(well(), contact=Contact(report(services=late))))
    events = [each for each in first.actions if isinstance(each, EmitEvent)]
    assert [(each.kind, each.reason) for each in events] == [("Warning", "CompactionLate")]
    again = reconcile(after(replace(well(), contact=Contact(report(services=late))), status=first.status))
    assert again.actions == ()


def test_the_condition_names_the_damaged_file_and_what_pins() -> None:
    said = judge_services(seen(), services(damaged_files=20, damage=(DAMAGED,)), timedelta(hours=1), NAMES)[2]
    assert said == (
        "20 data files are gone or too short. eu/a.parquet of instant 20261121110000000: it is gone. "
        "Run bucketingest inspect."
    )
    said = judge_services(seen(), services(pins=(pin("archive", 8),)), timedelta(hours=1), NAMES)[2]
    assert said == "The table's archive cannot go on: the file group a cannot be merged"
