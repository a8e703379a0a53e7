"""What a start finds in its checkpoint directory when its source is generated rows."""

from __future__ import annotations

import json

import pytest

from bucketingest.storage import Storage
from bucketingest.stream.checkpoint.checkpoint import prepare_checkpoint
from bucketingest.write.instants.source_range import SourceRange
from support.jobs.checkpoints import ATTEMPT, NEW, in_step, resumed, tree


def rate(batch: int, start: str | None, end: str) -> SourceRange:
    return SourceRange("checkpoint", start, end, "rate-id", batch)


def test_generated_rows_continue_with_the_time_at_which_they_started(root: Storage) -> None:
    root.put("attempt-00000002-1/metadata", b'{"id":"rate-id"}')
    root.put("attempt-00000002-1/sources/0/0", b"v1\n1700000000000")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="rate", start=in_step(rate(5, "8", "9")))

    files = tree(root, ATTEMPT)
    assert made.verdict == "in step"
    assert files["sources/0/0"] == "v1\n1700000000000"
    assert json.loads(files["metadata"]) == {"id": "rate-id"}
    assert [files[f"offsets/{each}"].splitlines()[2] for each in (4, 5)] == ["8", "9"]


def test_new_generated_rows_start_after_the_micro_batch_that_has_none(root: Storage) -> None:
    root.put("attempt-00000002-1/sources/0/0", b"v1\n1700000000000")

    made = prepare_checkpoint(root, attempt=ATTEMPT, source="rate", start=NEW)

    files = tree(root, ATTEMPT)
    assert (made.verdict, made.reason) == ("new", NEW.reason)
    assert files["offsets/0"].splitlines()[2] == "0"
    assert "commits/0" in files
    assert int(files["sources/0/0"].splitlines()[1]) > 1700000000000, "of a table that is gone"


@pytest.mark.parametrize("left", [None, b"", b"v1\n", b"v1\nno number"])
def test_generated_rows_continue_with_the_next_value_when_it_is_not_known_when_they_started(
    root: Storage, left: bytes | None
) -> None:
    if left is not None:
        root.put("attempt-00000002-1/metadata", b'{"id":"rate-id"}')
        root.put("attempt-00000002-1/sources/0/0", left)

    start = resumed(rate(5, "8", "90"), rate(6, "90", "100"))
    made = prepare_checkpoint(root, attempt=ATTEMPT, source="rate", start=start)

    files = tree(root, ATTEMPT)
    assert made.verdict == "rebuilt"
    stamp = json.loads(files["offsets/6"].splitlines()[1])["batchTimestampMs"]
    assert abs(stamp - 100_000 - int(files["sources/0/0"].splitlines()[1])) < 60_000
