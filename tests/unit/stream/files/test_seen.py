"""What is known of files in 28 bytes each: the same as a dictionary says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.storage import open_storage
from bucketingest.stream.files import log
from bucketingest.stream.files.log import FileBatch, FilesLog
from bucketingest.stream.files.seen import FORGOTTEN_DAYS, Seen
from bucketingest.stream.files.source_file import SourceFile

FILES = st.builds(
    lambda name, version: SourceFile(name, 0, 0, version), st.sampled_from("abcdefgh"), st.sampled_from("12")
)
STEPS = st.lists(st.one_of(st.lists(FILES, max_size=4), st.just("fold"), st.just("store")), max_size=12)


@given(steps=STEPS, listing=st.lists(FILES, unique_by=lambda file: file.path))
def test_a_look_says_what_a_dictionary_says(steps: list[list[SourceFile] | str], listing: list[SourceFile]) -> None:
    seen = Seen()
    known: dict[str, str] = {}
    for step in steps:
        if isinstance(step, list):
            seen.add("/in", step)
            known |= {file.path: file.version for file in step}
        else:
            seen = seen.folded()
            seen = Seen.from_bytes(seen.to_bytes()) if step == "store" else seen
    look = seen.look("/in", listing)
    assert look.new == [file for file in listing if file.path not in known]
    changed = [file for file in listing if known.get(file.path, file.version) != file.version]
    assert sorted(look.changed, key=lambda file: file.path) == sorted(changed, key=lambda file: file.path)
    assert seen.look("/other", listing).new == listing


def test_a_file_that_is_gone_is_forgotten_after_a_time_and_others_never() -> None:
    there, gone = SourceFile("there", 0, 0, "1"), SourceFile("gone", 0, 0, "1")
    seen = Seen()
    seen.add("/in", [there, gone])
    seen = seen.folded()
    for day in range(101, 101 + FORGOTTEN_DAYS):
        seen.listed([seen.look("/in", [there]).present], day)
        seen = seen.folded()
    assert seen.look("/in", [gone]).new == []
    seen.listed([seen.look("/in", [there]).present], 101 + FORGOTTEN_DAYS)
    seen = seen.folded()
    assert seen.look("/in", [gone]).new == [gone]
    assert seen.look("/in", [there]).new == []


def test_a_file_that_came_back_while_nobody_looked_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process ended between a plan and the object with all files; the next one starts months later."""
    files, table = [SourceFile(name, 0, 0, "1") for name in "abc"], open_storage(str(tmp_path))
    files_log = FilesLog(table, "orders")
    monkeypatch.setattr(log, "_FOLD_FILES", 1)
    seen = files_log.fold_if_due(files_log.seen_until(-1).with_batch(files_log.plan(FileBatch(0, "/in", (files[0],)))))
    seen.seen.listed([seen.seen.look("/in", []).present], 100)
    files_log.fold_if_due(seen.with_batch(files_log.plan(FileBatch(1, "/in", (files[1],)))))
    files_log.plan(FileBatch(2, "/in", (files[2],)))
    later = files_log.fold_if_due(files_log.seen_until(2))
    assert later.folded == 2
    assert later.seen.look("/in", files).new == []


def test_the_memory_of_a_file_is_small() -> None:
    seen = Seen()
    seen.add("/in", [SourceFile(f"{number}", 0, 0, "1") for number in range(10_000)])
    folded = seen.folded()
    assert len(folded) == 10_000
    assert sum(each.nbytes for each in (folded._keys, folded._versions, folded._gone)) == 28 * 10_000
