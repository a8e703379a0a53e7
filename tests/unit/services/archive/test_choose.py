"""Which instants may leave the active timeline, and what pins the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.table.file_view import FileView, build_file_view
from bucketingest.hudi.timeline.instant import CLEAN, COMMIT, REPLACE_COMMIT, ROLLBACK, SAVEPOINT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.archive.choose import ArchiveChoice, ArchiveFacts, ArchiveRules, Held, choose
from bucketingest.storage.interface import ObjectInfo
from support.tables.services.old_timelines import NOW, at, done, finished

RULES = ArchiveRules(keep_min=2)
FILE_ID = "00000000-0000-0000-0000-000000000000-0"
GROUP = ("eu", FILE_ID)
WRITES = [at(minutes) for minutes in (200, 190, 180, 170, 160, 150, 140)]
"""Seven deltacommits; the newest two stay."""
BETWEEN = at(175)
"""A time between the third and the fourth."""
NAMES = [finished(time) for time in WRITES]
NOTHING = ArchiveFacts(FileView({}))


def view(names: list[str], *files: LogFileName | BaseFileName) -> FileView:
    infos = [ObjectInfo(f"eu/{name}", 1, NOW, None) for name in files]
    return build_file_view(infos, Timeline.of_file_names(names))


def chosen(
    names: list[str] = NAMES, facts: ArchiveFacts = NOTHING, held: Held | None = None, rules: ArchiveRules = RULES
) -> ArchiveChoice:
    return choose(Timeline.of_file_names(names), facts, held or Held(), rules, NOW)


def times(choice: ArchiveChoice) -> list[str]:
    return [instant.request_time for instant in choice.instants]


def test_without_a_pin_all_but_the_newest_writes_leave() -> None:
    assert times(chosen()) == WRITES[:5]
    assert chosen().pins == ()


def test_a_write_that_completed_lately_stays_and_all_after_it() -> None:
    late = [*NAMES[:3], f"{WRITES[3]}_{at(59)}.deltacommit", *NAMES[4:]]
    assert times(chosen(late)) == WRITES[:3]
    assert times(chosen(late, rules=replace(RULES, min_age=timedelta(minutes=58)))) == WRITES[:5]


def test_few_writes_all_stay() -> None:
    assert times(chosen(rules=ArchiveRules(keep_min=7))) == []
    assert times(chosen(rules=ArchiveRules(keep_min=99))) == []
    assert times(chosen(rules=ArchiveRules(keep_min=0))) == WRITES


def test_no_more_leave_than_the_limit_the_oldest_first() -> None:
    assert times(chosen(rules=replace(RULES, instants_max=3))) == WRITES[:3]


def test_cleans_and_rollbacks_go_with_the_writes_that_are_newer() -> None:
    services = [(at(205), CLEAN), (at(165), ROLLBACK), (at(155), CLEAN), (at(100), ROLLBACK)]
    names = [*NAMES, *(finished(time, action) for time, action in services)]
    assert times(chosen(names)) == [at(205), *WRITES[:4], at(165), WRITES[4]]


def test_a_clean_that_pipelines_must_look_at_stays_and_pins_nothing() -> None:
    names = [*NAMES, finished(at(205), CLEAN), finished(at(165), CLEAN)]
    assert times(chosen(names, held=Held(looked_at=[at(165)]))) == [at(205), *WRITES[:5]]


def test_a_pending_clean_or_rollback_pins_nothing_and_stays() -> None:
    names = [*NAMES, f"{at(195)}.clean.requested", f"{at(175)}.rollback.inflight"]
    assert times(chosen(names)) == WRITES[:5]


@pytest.mark.parametrize(
    "pending", ["deltacommit.requested", "deltacommit.inflight", "compaction.requested", "clustering.inflight",
                "logcompaction.requested", "replacecommit.requested", "restore.inflight"],
)  # fmt: skip
def test_the_write_before_the_first_pending_one_stays_and_all_after_it(pending: str) -> None:
    """If the pending one is rolled back, its files are older than the first active instant otherwise: visible."""
    choice = chosen([*NAMES, f"{BETWEEN}.{pending}", f"{at(165)}.deltacommit.inflight"])
    assert times(choice) == WRITES[:2]
    (pin,) = choice.pins
    assert (pin.instant, pin.first_kept) == (BETWEEN, WRITES[2])
    assert "pending" in pin.why


def test_before_the_first_write_nothing_leaves_while_one_is_pending() -> None:
    assert times(chosen([*NAMES, f"{at(999)}.deltacommit.requested"])) == []


def test_an_instant_whose_log_file_is_in_a_latest_slice_stays() -> None:
    facts = ArchiveFacts(view(NAMES, LogFileName(FILE_ID, WRITES[1], 1), LogFileName(FILE_ID, WRITES[3], 1)))
    choice = chosen(facts=facts)
    assert times(choice) == WRITES[:1]
    (pin,) = choice.pins
    assert (pin.instant, pin.group, pin.first_kept) == (WRITES[1], GROUP, WRITES[1])


def test_an_instant_whose_log_file_is_in_a_slice_that_is_not_cleaned_stays() -> None:
    names = [*NAMES, finished(at(100), COMMIT)]
    facts = ArchiveFacts(view(names, LogFileName(FILE_ID, WRITES[2], 1), BaseFileName(FILE_ID, at(100))))
    assert times(chosen(names, facts)) == WRITES[:2]


def test_base_files_and_log_files_of_archived_instants_pin_nothing() -> None:
    facts = ArchiveFacts(view(NAMES, BaseFileName(FILE_ID, WRITES[0]), LogFileName(FILE_ID, at(999), 1)))
    assert times(chosen(facts=facts)) == WRITES[:5]


@pytest.mark.parametrize("orphan", [LogFileName(FILE_ID, BETWEEN, 1), BaseFileName(FILE_ID, BETWEEN)])
def test_a_file_of_no_instant_keeps_the_write_before_it(orphan: LogFileName | BaseFileName) -> None:
    """Readers take it as committed once it is older than the first active instant."""
    choice = chosen(facts=ArchiveFacts(view(NAMES, orphan)))
    assert times(choice) == WRITES[:2]
    assert [(pin.instant, pin.group) for pin in choice.pins] == [(BETWEEN, GROUP)]


def test_the_last_compaction_stays_and_what_follows() -> None:
    names = [*NAMES, finished(at(195), COMMIT), finished(BETWEEN, COMMIT)]
    choice = chosen(names)
    assert times(choice) == [WRITES[0], at(195), *WRITES[1:3]]
    assert [pin.instant for pin in choice.pins] == [BETWEEN]


def test_a_last_compaction_of_long_ago_leaves_when_many_writes_followed() -> None:
    """Clusterings may leave nothing to compact: then there is no next one, and the timeline would grow."""
    names = [*NAMES, finished(at(195), COMMIT)]
    choice = chosen(names)
    assert times(choice) == [WRITES[0], at(195), WRITES[1]]
    assert [pin.instant for pin in choice.pins] == [WRITES[2]]
    assert times(chosen([*NAMES[:6], finished(at(195), COMMIT)])) == [WRITES[0], at(195)]
    assert times(chosen([*NAMES[:5], finished(at(195), COMMIT)])) == [WRITES[0]]


def test_the_first_savepoint_stays_and_what_follows() -> None:
    names = [*NAMES, finished(WRITES[1], SAVEPOINT), finished(WRITES[3], SAVEPOINT)]
    assert times(chosen(names)) == WRITES[:1]
    assert times(chosen([*NAMES, f"{WRITES[2]}.savepoint.inflight"])) == WRITES[:2]


def test_what_cleaning_retains_stays() -> None:
    assert times(chosen(held=Held(earliest_to_retain=WRITES[3]))) == WRITES[:3]
    assert times(chosen(held=Held(earliest_to_retain=at(999)))) == []


def test_the_newest_position_of_each_pipeline_stays_unless_it_is_retired() -> None:
    facts = replace(NOTHING, positions={"shop/old": WRITES[1], "shop/older": WRITES[0], "shop/orders": WRITES[6]})
    choice = chosen(facts=facts)
    assert times(choice) == []
    assert [pin.why for pin in choice.pins] == ["it has the newest position of pipeline shop/older"]
    assert times(chosen(facts=facts, held=Held(retired=["shop/older"]))) == WRITES[:1]
    assert times(chosen(facts=facts, held=Held(retired=["shop/older", "shop/old"]))) == WRITES[:5]


def test_the_newest_commit_with_the_schema_stays() -> None:
    assert times(chosen(facts=replace(NOTHING, schema=WRITES[2]))) == WRITES[:2]


def test_a_kept_instant_stays_and_says_why() -> None:
    choice = chosen(held=Held(kept={WRITES[4]: "later", WRITES[2]: "it has dead letters to publish"}))
    assert times(choice) == WRITES[:2]
    assert [pin.why for pin in choice.pins] == ["it has dead letters to publish"]


def test_an_aborted_instant_that_is_still_swept_keeps_the_write_before_it() -> None:
    assert times(chosen(held=Held(kept={BETWEEN: "it was aborted and is swept"}))) == WRITES[:2]


def test_a_kept_rollback_stays() -> None:
    names = [*NAMES, finished(BETWEEN, ROLLBACK), finished(at(195), ROLLBACK)]
    assert times(chosen(names, held=Held(kept={BETWEEN: "nobody looked at it yet"}))) == [WRITES[0], at(195), WRITES[1]]


def test_a_kept_instant_that_another_writer_archived_pins_nothing() -> None:
    assert times(chosen(held=Held(kept={at(999): "its journal is not done"}))) == WRITES[:5]


def test_a_replacement_stays_until_what_it_replaced_is_cleaned() -> None:
    names = [*NAMES, finished(BETWEEN, REPLACE_COMMIT)]
    facts = ArchiveFacts(view(names, BaseFileName(FILE_ID, WRITES[0])), replaced={BETWEEN: [GROUP]})
    choice = chosen(names, facts)
    assert times(choice) == WRITES[:3]
    assert [(pin.instant, pin.group) for pin in choice.pins] == [(BETWEEN, GROUP)]
    cleaned = ArchiveFacts(view(names), replaced={BETWEEN: [GROUP]})
    assert BETWEEN in times(chosen(names, cleaned))


def test_of_several_pins_the_strictest_counts_and_is_listed_first() -> None:
    held = Held(earliest_to_retain=WRITES[3], kept={WRITES[1]: "kept"})
    choice = chosen(facts=replace(NOTHING, schema=WRITES[6]), held=held)
    assert times(choice) == WRITES[:1]
    assert [pin.instant for pin in choice.pins] == [WRITES[1], WRITES[3]], "the schema's commit is not old enough"


def test_a_log_file_placed_by_its_completion_still_pins_by_its_request() -> None:
    """Requested before a compaction and completed after it: the log file is in the new slice."""
    compaction = str(int(WRITES[0]) + 500)
    assert WRITES[0] < compaction < done(WRITES[0])
    names = [*NAMES, finished(compaction, COMMIT)]
    facts = ArchiveFacts(view(names, LogFileName(FILE_ID, WRITES[0], 1), BaseFileName(FILE_ID, compaction)))
    assert times(chosen(names, facts)) == []
