"""The file source's log is read from whatever files are left of it, and written so that Spark continues it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.source_files import COMPACT_INTERVAL, digest_of, log_files, read_log


def entry(number: int, file: str = "") -> str:
    return json.dumps({"path": f"file:///in/{file or number}.json", "timestamp": 1000 + number, "batchId": number})


LOG = {number: [entry(number), entry(number, f"{number}-second")] for number in range(45)}
CURRENT = range(20, 45)
"""Entries whose files are left when Spark has deleted old ones."""


def file_of(*numbers: int) -> bytes:
    return "\n".join(["v1", *(line for number in numbers for line in LOG[number])]).encode()


@pytest.fixture
def checkpoint(request: pytest.FixtureRequest) -> Storage:
    """A log as Spark has it after entry 44: three compact files, old ones are gone."""
    storage = open_storage(f"memory://log-{request.node.name.replace('[', '-').replace(']', '')}")
    for number in CURRENT:
        if number % 10 == 9:
            storage.put(f"c/sources/0/{number}.compact", file_of(*range(number + 1)))
        else:
            storage.put(f"c/sources/0/{number}", file_of(number))
    storage.put("c/sources/0/.44.crc", b"Hadoop's")
    storage.put("c/sources/0/.44.tmp", b"half of a fi")
    return storage


@pytest.mark.parametrize("last", [0, 8, 9, 19, 28, 29, 38, 39, 40, 44])
def test_a_log_is_read_up_to_any_entry(checkpoint: Storage, last: int) -> None:
    assert read_log(checkpoint, "c", last) == {number: LOG[number] for number in range(last + 1)}


def test_a_log_that_ends_earlier_is_not_whole(checkpoint: Storage) -> None:
    assert read_log(checkpoint, "c", 45) is None
    assert read_log(checkpoint, "nowhere", 0) is None


@pytest.mark.parametrize("damage", [b"", b"v2\n", b"v1", file_of(*range(40))[:-20], b"v1\n[]", b"v1\n{}", None])
def test_an_older_compact_file_makes_up_for_a_damaged_one(checkpoint: Storage, damage: bytes | None) -> None:
    if damage is None:
        checkpoint.delete("c/sources/0/39.compact")
    else:
        checkpoint.put("c/sources/0/39.compact", damage)

    assert read_log(checkpoint, "c", 38) == {number: LOG[number] for number in range(39)}
    assert read_log(checkpoint, "c", 39) is None, "nothing else has this entry"


def test_files_that_are_missing_from_a_torn_file_at_the_end_of_a_line_show_in_the_digest(checkpoint: Storage) -> None:
    whole = digest_of(LOG, 44)
    checkpoint.put("c/sources/0/44", b"v1\n" + LOG[44][0].encode())

    torn = read_log(checkpoint, "c", 44)

    assert torn is not None
    assert digest_of(torn, 44) != whole


@given(last=st.integers(0, 44), up_to=st.integers(0, 44))
def test_what_is_written_is_read_again_up_to_any_entry(last: int, up_to: int) -> None:
    storage = open_storage("memory://written")
    for name, content in log_files(LOG, last).items():
        storage.put(f"{last}/sources/0/{name}", content)

    expected = {number: LOG[number] for number in range(up_to + 1)} if up_to <= last else None
    assert read_log(storage, str(last), up_to) == expected


@pytest.mark.parametrize("last", range(45))
def test_spark_takes_the_interval_for_what_it_is(last: int) -> None:
    names = log_files(LOG, last)

    compacts = sorted((int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")), reverse=True)
    if len(compacts) > 1:
        assert compacts[0] - compacts[1] == COMPACT_INTERVAL
    elif compacts:
        assert compacts == [COMPACT_INTERVAL - 1], "a single one is taken as the interval"
    plain = sorted(int(name) for name in names if name.isdigit())
    assert plain == list(range(compacts[0] + 1 if compacts else 0, last + 1))
    assert not any((number + 1) % COMPACT_INTERVAL == 0 for number in plain)


def test_the_digest_differs_for_other_files_another_order_of_entries_and_another_length() -> None:
    base = {0: [entry(0)], 1: [entry(1)]}
    others = [
        {0: [entry(0)], 1: [entry(1, "other")]},
        {0: [entry(0, "other")], 1: [entry(1)]},
        {0: [entry(0), entry(1)], 1: [entry(1, "other")]},
        {0: [entry(1)], 1: [entry(0)]},
    ]

    digests = {digest_of(each, 1) for each in [base, *others]} | {digest_of(base, 0)}

    assert len(digests) == 6
