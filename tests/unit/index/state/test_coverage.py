from __future__ import annotations

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.table.file_view import DataFile, FileGroup, FileSlice
from bucketingest.index.state.coverage import CoveredSlice, Difference, difference


def group(file_id: str, base: str | None, *logs: str) -> FileGroup:
    """A file group with the base file and log files of these instants in its newest slice."""
    base_file = DataFile(f"p/{file_id}", 1, BaseFileName(file_id, base)) if base else None
    log_files = tuple(DataFile(f"p/{log}", 1, LogFileName(file_id, log, 1)) for log in logs)
    return FileGroup("p", file_id, (FileSlice(base or logs[0], base_file, log_files),))


def covered(*groups: FileGroup) -> dict[str, CoveredSlice]:
    return {each.file_id: CoveredSlice.of(each.slices[-1]) for each in groups}


def seen(*groups: FileGroup) -> dict[str, FileGroup]:
    return {each.file_id: each for each in groups}


def test_nothing_differs_from_the_listing_that_was_loaded_in_whichever_order_logs_are_listed() -> None:
    known = covered(group("a", "1", "2", "3"), group("b", None, "4"))
    assert difference(known, seen(group("b", None, "4"), group("a", "1", "3", "2"))) == Difference()


def test_a_new_group_and_new_log_files_are_loaded() -> None:
    known = covered(group("a", "1", "2"), group("b", None, "4"))
    now = seen(group("c", "9"), group("b", None, "4", "5"), group("a", "1", "2"))
    assert difference(known, now) == Difference(added=("b", "c"))


def test_another_log_file_in_place_of_a_known_one_is_loaded() -> None:
    assert difference(covered(group("a", "1", "2")), seen(group("a", "1", "3"))) == Difference(added=("a",))


def test_a_group_with_another_base_file_or_fewer_logs_is_rewritten_and_others_are_gone() -> None:
    known = covered(group("a", "1"), group("b", "1"), group("c", "1", "2", "3"), group("d", None, "1"))
    now = seen(group("a", "5"), group("c", "1", "2"), group("d", "4"))
    assert difference(known, now) == Difference(rewritten=("a", "c", "d"), gone=("b",))


def test_a_group_without_committed_files_is_no_group() -> None:
    assert difference({}, {"a": FileGroup("p", "a", ())}) == Difference()


def test_log_files_that_are_added_one_by_one_cover_the_same() -> None:
    whole = group("a", "1", "2", "3")
    names = [str(log.name) for log in whole.slices[-1].log_files]
    by_steps = CoveredSlice("1").with_logs(names[1:]).with_logs(names[:1])
    assert by_steps == CoveredSlice.of(whole.slices[-1])
