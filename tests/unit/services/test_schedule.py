"""When a job's table services look, clean, wait and give up, without a table."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import HudiError
from bucketingest.services.placement import LeftToHudi
from bucketingest.services.schedule import FIRST_LOOK, LOOK_EVERY, TIDY_EVERY, Schedule

_START = 1000.0
_BY_HUDI = "another writer cleans the table"


def schedule(*, tidies: bool = True, left: LeftToHudi | None = LeftToHudi()) -> Schedule:  # noqa: B008 - frozen
    return Schedule.at_start(_START, tidies=tidies, left=left)


def test_the_first_look_is_after_the_start() -> None:
    made = schedule()
    assert not made.is_look_due(_START)
    assert made.is_look_due(_START + FIRST_LOOK.total_seconds())


def test_pauses_after_failures_get_longer_up_to_a_bound() -> None:
    made = schedule()
    pauses = [made.failed(BucketIngestError("the store is away")) for _ in range(5_000)]
    assert pauses[0] == LOOK_EVERY
    assert all(before <= after for before, after in pairwise(pauses))
    assert pauses[-1] == timedelta(minutes=30)
    assert schedule().failed(HudiError("the table is damaged")) == pauses[-1], "a second try does not mend it"


@pytest.mark.parametrize(
    ("tidies", "left", "due"),
    [
        (True, LeftToHudi(), True),
        (False, LeftToHudi(), False),
        (True, None, False),
        (True, LeftToHudi(tidying=_BY_HUDI), False),
        (True, LeftToHudi(compaction="another writer compacts the table"), True),
    ],
)
def test_who_cleans(tidies: bool, left: LeftToHudi | None, due: bool) -> None:
    made = schedule(tidies=tidies, left=left)
    assert made.is_tidy_due(_START) is due
    made.tidied(_START)
    assert not made.is_tidy_due(_START + 1)
    assert made.is_tidy_due(_START + TIDY_EVERY.total_seconds()) is due


def test_a_job_that_ends_looks_at_once_and_once_more_for_its_last_clean() -> None:
    made = schedule()
    made.finish(_START, busy=False)
    assert made.is_look_due(_START)
    made.look_again(_START, LOOK_EVERY, cleans_first=True)
    assert made.is_look_due(_START)
    made.look_again(_START, LOOK_EVERY, cleans_first=True)
    made.finish(_START, busy=False)
    assert not made.is_look_due(_START), "it does not go round for ever"


def test_a_failure_is_not_tried_again_at_the_end() -> None:
    made = schedule()
    made.finish(_START, busy=True)
    made.look_again(_START, made.failed(BucketIngestError("the store is away")), cleans_first=True)
    assert not made.is_look_due(_START)


def test_an_operation_that_ends_its_process_again_and_again_is_given_up_until_nothing_merges() -> None:
    made = schedule()
    for operation in (4, 4, 7, 4):
        assert not made.given_up
        made.died(operation)
    assert list(made.given_up) == [4]
    made.nothing_merges()
    made.died(4)
    assert not made.given_up, "the next compaction has other operations"


def test_a_file_group_that_could_not_be_merged_rests_for_a_day() -> None:
    made, group = schedule(), ("region=eu", "f-1")
    made.rest_groups(_START, [group])
    assert made.resting(_START + 86_399) == {group}
    assert not made.resting(_START + 86_401)
    assert not made.resting(_START), "it is forgotten"
