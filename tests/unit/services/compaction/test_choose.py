"""Which file groups are due for compaction, and what a plan says of them and of the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.plans.compaction_plan import CompactionPlan
from bucketingest.hudi.table.file_view import FileView, build_file_view
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.compaction.choose import OPEN_BYTES, CompactionTriggers, due_groups, look_after, plan_of
from bucketingest.spec.fields.runtime import Slo
from bucketingest.spec.fields.services import Services
from bucketingest.storage.interface import ObjectInfo

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DEFAULTS = CompactionTriggers()
MIB = 1024**2
FILE_ID = "00000000-0000-0000-0000-000000000000-0"


def at(minutes_ago: float) -> str:
    return format_time(NOW - timedelta(minutes=minutes_ago))


def view(*files: tuple[str, int], base: tuple[str, int] | None = None, partition: str = "eu") -> FileView:
    """One file group: log files as (instant, bytes), and a base file."""
    objects = [(f"{partition}/{LogFileName(FILE_ID, instant, 1)}", size) for instant, size in files]
    if base is not None:
        objects.append((f"{partition}/{BaseFileName(FILE_ID, base[0])}", base[1]))
    names = [f"{instant}_{instant}.deltacommit" for instant, _ in files]
    names += [f"{base[0]}_{base[0]}.commit"] if base else []
    infos = [ObjectInfo(path, size, NOW, None) for path, size in objects]
    return build_file_view(infos, Timeline.of_file_names(names))


def logs(count: int, size: int = 1) -> list[tuple[str, int]]:
    return [(at(1 + n / 10), size) for n in range(count)]


def why(found: FileView, triggers: CompactionTriggers = DEFAULTS) -> str | None:
    due, left_out = due_groups(found, (), triggers, NOW)
    assert left_out == (frozenset() if due else {("eu", FILE_ID)})
    return due[0].why if due else None


def test_a_group_is_due_by_the_age_of_its_oldest_log_file() -> None:
    assert why(view((at(59), 1))) is None
    assert why(view((at(60), 1), (at(1), 1))) == "its oldest log file is 1:00:00 old"


PROMISED = CompactionTriggers.of(Services(), Slo.model_validate({"readOptimizedFreshness": "5m"}))


def test_a_promise_makes_groups_with_new_rows_due_by_age_alone_so_none_is_rewritten_twice_meanwhile() -> None:
    assert due_groups(view(base=(at(600), MIB)), (), PROMISED, NOW)[0] == [], "no new rows"
    assert why(view((at(3.75), 1)), PROMISED) == "its oldest log file is 0:03:45 old"
    many = [(at(n / 100), MIB) for n in range(1, 370)]
    assert why(view(*many, base=(at(9), 1)), DEFAULTS)
    assert due_groups(view(*many, base=(at(9), 1)), (), PROMISED, NOW)[0] == []


def test_of_groups_with_equally_old_log_files_the_smallest_comes_first() -> None:
    objects, names = [], []
    for file_id, minutes, size in (("a", 61, 3), ("b", 61, 2), ("c", 62, 9), ("d", 61, 1)):
        full = f"{file_id * 8}-0000-0000-0000-000000000000-0"
        base = at(90)
        objects += [(f"eu/{LogFileName(full, at(minutes), 1)}", 1), (f"eu/{BaseFileName(full, base)}", size * MIB)]
        names += [f"{at(minutes)}_{at(minutes)}.deltacommit", f"{base}_{base}.commit"]
    infos = [ObjectInfo(path, size, NOW, None) for path, size in objects]
    due, _ = due_groups(build_file_view(infos, Timeline.of_file_names(sorted(set(names)))), (), DEFAULTS, NOW)
    assert [each.operation.file_id[0] for each in due] == ["c", "d", "b", "a"]


@pytest.mark.parametrize(
    ("oldest", "triggers", "seconds"),
    [
        (None, PROMISED, 60),
        (0, PROMISED, 60),
        (3.5, PROMISED, 15 + 10),  # a ninth of 225 s at least
        (3, PROMISED, 45),
        (9, PROMISED, 25),
        (59.5, DEFAULTS, 60),
        (0.5, CompactionTriggers(log_age=timedelta(seconds=45)), 15),
    ],
)
def test_the_next_look_is_when_the_oldest_log_file_is_due(
    oldest: float | None, triggers: CompactionTriggers, seconds: float
) -> None:
    oldest_at = None if oldest is None else NOW - timedelta(minutes=oldest)
    assert look_after(oldest_at, triggers, NOW, timedelta(minutes=1)) == timedelta(seconds=seconds)


def test_a_group_is_due_by_the_number_of_its_log_files_however_large_its_base_file() -> None:
    assert why(view(*logs(49), base=(at(9), 1000 * MIB))) is None
    assert why(view(*logs(50), base=(at(9), 1000 * MIB))) == "it has 50 log files"


@pytest.mark.parametrize(
    ("base", "size", "enough"),
    [
        pytest.param(None, 1, 4, id="no base file"),
        pytest.param(4000, 3000, 4, id="tiny"),
        pytest.param(4 * MIB, 1, 6, id="a few MiB"),
        pytest.param(16 * MIB, 1, 12, id="small"),
        pytest.param(16 * MIB, 3 * MIB, 3, id="small, with large log files"),
        pytest.param(92 * MIB, 1, 50, id="from here on the number of log files decides"),
        pytest.param(1000 * MIB, 62 * MIB, 8, id="large, with large log files"),
        pytest.param(None, 1000 * MIB, 1, id="a first load"),
    ],
)
def test_a_group_is_due_when_its_log_files_cost_reads_half_of_what_a_base_file_costs(
    base: int | None, size: int, enough: int
) -> None:
    """A reader also pays for opening a log file, a compaction also for what it writes beside the base file."""
    base_file = None if base is None else (at(9), base)
    few = CompactionTriggers(log_files=10**9)
    assert enough == 1 or why(view(*logs(enough - 1, size), base=base_file), few) is None
    found = why(view(*logs(enough, size), base=base_file), few)
    assert found == f"its {enough} log files have {enough * size} bytes, its base file {base or 0}"


@pytest.mark.parametrize(("base", "size"), [(10**7, 1), (10**8, 10**4), (10**8, 10**6), (10**9, 10**8)])
def test_a_log_file_is_charged_at_most_twice_its_bytes_and_those_of_opening_it(base: int, size: int) -> None:
    """So what compactions write in a day is bounded by the log files of the day, whatever the size of the table."""
    count = base // (2 * (size + OPEN_BYTES))
    assert count > 3
    assert why(view(*logs(count, size), base=(at(9), base)), CompactionTriggers(log_files=10**9)) is None


def test_a_group_without_log_files_is_neither_due_nor_left_out() -> None:
    assert due_groups(view(base=(at(9999), 1)), (), CompactionTriggers(log_files=0), NOW) == ([], frozenset())


def test_a_group_in_a_pending_service_is_left_out_and_its_partition_listed() -> None:
    """Hudi's next plan looks only at partitions that were written since, and at those that are listed."""
    due, left_out = due_groups(view((at(99), 1)), [("eu", FILE_ID)], CompactionTriggers(), NOW)
    assert due == []
    assert plan_of(due, left_out).left_out == ("eu",)


def test_the_group_with_the_oldest_log_file_comes_first() -> None:
    groups = {**view((at(70), 1)).partitions, **view((at(90), 1), partition="us").partitions}
    due, _ = due_groups(FileView(groups), (), CompactionTriggers(), NOW)
    assert [each.operation.partition_path for each in due] == ["us", "eu"]
    assert due[0].age == timedelta(minutes=90)


def test_an_operation_names_the_slice_in_the_order_in_which_readers_merge_it() -> None:
    found = view((at(3), 3 * 1024**2), (at(5), 5 * 1024**2), base=(at(9), 7 * 1024**2))
    (due,), _ = due_groups(found, (), CompactionTriggers(), NOW)
    operation = due.operation
    assert (operation.partition_path, operation.file_id, operation.base_instant) == ("eu", FILE_ID, at(9))
    assert operation.base_file == str(BaseFileName(FILE_ID, at(9)))
    assert operation.log_files == tuple(str(LogFileName(FILE_ID, instant, 1)) for instant in (at(5), at(3)))
    assert operation.metrics == {
        "TOTAL_LOG_FILES": 2,
        "TOTAL_LOG_FILES_SIZE": 8 * 1024**2,
        "TOTAL_IO_READ_MB": 15,
        "TOTAL_IO_WRITE_MB": 7,
        "TOTAL_IO_MB": 22,
    }


def test_a_slice_without_a_base_file_is_named_by_its_first_log_file() -> None:
    (due,), _ = due_groups(view((at(70), 1), (at(80), 1)), (), CompactionTriggers(), NOW)
    assert (due.operation.base_instant, due.operation.base_file) == (at(80), None)
    assert due.operation.metrics["TOTAL_IO_WRITE_MB"] == 120


def test_a_plan_survives_its_bytes_and_equal_plans_have_equal_ones() -> None:
    due, left_out = due_groups(view((at(70), 1)), (), CompactionTriggers(), NOW)
    plan = plan_of(due, left_out)
    assert CompactionPlan.decode(plan.encode(), "plan") == plan
    assert plan.encode() == plan_of(due, left_out).encode()
