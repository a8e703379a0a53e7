"""Hashing configs as Hudi 1.2.0 writes and reads them: which one counts, and what is in it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.bucket_rules.hashing_config import (
    ARCHIVE_DIRECTORY,
    CONFIG_DIRECTORY,
    HashingConfig,
    counts_at,
    load_config,
    load_rules,
    path_of_config,
)
from bucketingest.hudi.errors import InvalidTable, UnsupportedTable
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import complete, create_requested
from bucketingest.storage import NotFound, Storage, open_storage
from support.storage.passing_storage import PassingStorage

RESCALE = "20261123023048657"
OF_HUDI = (
    b'{\n  "expressions" : "^fr$,7;^us$,3;^us\\\\z,2;.*,2",\n  "defaultBucketNumber" : 2,\n  "rule" : "regex",\n'
    b'  "version" : 1,\n  "instant" : "20261123023048657"\n}'
)
"""What the procedure partition_bucket_index_manager wrote."""


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}")


def put(storage: Storage, instant: str, *rules: BucketRule, directory: str = CONFIG_DIRECTORY) -> HashingConfig:
    config = HashingConfig(instant, BucketCounts(2, rules))
    storage.create(path_of_config(instant, directory), config.encode())
    return config


def test_hudis_own_file_is_read() -> None:
    config = HashingConfig.decode(OF_HUDI, path_of_config(RESCALE))
    rules = (BucketRule("^fr$", 7), BucketRule("^us$", 3), BucketRule(r"^us\z", 2), BucketRule(".*", 2))
    assert config == HashingConfig(RESCALE, BucketCounts(2, rules))
    assert config.wanted == rules


def test_our_file_has_hudis_fields_and_is_read_back() -> None:
    config = HashingConfig(RESCALE, BucketCounts(4, (BucketRule("é$", 2), BucketRule("x", 3))), kept=1)
    assert HashingConfig.decode(config.encode(), config.path) == config
    assert config.wanted == (BucketRule("x", 3),)
    fields = json.loads(config.encode())
    assert list(fields) == [*json.loads(OF_HUDI), "bucketingest.kept"]
    assert fields["expressions"] == "é$,2;x,3"


def test_blanks_and_the_last_semicolon_count_as_little_as_for_hudi() -> None:
    content = json.loads(OF_HUDI) | {"expressions": " us , 3 ; eu,4;;", "rule": "REGEX"}
    config = HashingConfig.decode(json.dumps(content).encode(), path_of_config(RESCALE))
    assert config.counts.rules == (BucketRule("us", 3), BucketRule("eu", 4))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"expressions": "us"}, "bucket rule 'us' is not <pattern>,<count>"),
        ({"expressions": "a,b,2"}, "is not <pattern>,<count>"),
        ({"expressions": "us,2;;eu,3"}, "is not <pattern>,<count>"),
        ({"expressions": "us,-2"}, "is not <pattern>,<count>"),
        ({"expressions": r"\bus,2"}, "let Hudi's partition_bucket_index_manager overwrite the rules"),
        ({"version": 2}, "version 2 of rules of the type regex is not known"),
        ({"rule": "svm"}, "type svm is not known"),
        ({"defaultBucketNumber": 0}, "has 0 buckets"),
        ({"defaultBucketNumber": "x"}, "restore it"),
        ({"bucketingest.kept": 9}, "restore it"),
    ],
)
def test_a_file_that_cannot_be_applied_is_refused_by_its_name(change: dict[str, Any], why: str) -> None:
    data = json.dumps(json.loads(OF_HUDI) | change).encode()
    with pytest.raises(InvalidTable, match=why) as refused:
        HashingConfig.decode(data, path_of_config(RESCALE))
    assert path_of_config(RESCALE) in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", OF_HUDI[:-9]])
def test_a_torn_file_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidTable, match="restore it"):
        HashingConfig.decode(data, path_of_config(RESCALE))


def test_without_a_file_there_are_no_rules(storage: Storage) -> None:
    assert load_config(storage) is None
    assert load_rules(storage, 4).counts == BucketCounts(4)
    assert load_rules(storage, 4).instant == ""


def test_the_newest_file_counts_and_other_files_do_not(storage: Storage) -> None:
    put(storage, "00000000000000", BucketRule("us", 3))
    newest = put(storage, "20261123023048600", BucketRule("us", 5))
    put(storage, "20261123023048700", BucketRule("us", 7), directory=ARCHIVE_DIRECTORY)
    storage.create(f"{CONFIG_DIRECTORY}/.20261123023048800.hashing_config.crc", b"crc")
    assert load_config(storage) == newest


def test_a_pending_rescale_does_not_count_until_it_completes(storage: Storage) -> None:
    first = put(storage, "00000000000000", BucketRule("us", 3))
    create_requested(storage, RESCALE, REPLACE_COMMIT, b"")
    rescaled = put(storage, RESCALE, BucketRule("us", 5))
    assert load_config(storage) == first
    complete(storage, RESCALE, "20261123023052456", b"", REPLACE_COMMIT)
    assert load_config(storage) == rescaled


def test_another_pending_instant_of_its_time_does_not_stop_a_file(storage: Storage) -> None:
    create_requested(storage, RESCALE, DELTA_COMMIT)
    config = put(storage, RESCALE, BucketRule("us", 5))
    assert load_config(storage) == config


def test_a_pending_rescale_of_a_table_without_rules_leaves_it_without(storage: Storage) -> None:
    create_requested(storage, RESCALE, REPLACE_COMMIT, b"")
    put(storage, RESCALE, BucketRule("us", 5))
    assert load_config(storage) is None


class _Interrupted(PassingStorage):
    """Something happens at the first read of a config."""

    def __init__(self, inner: Storage, then: Callable[[], None]) -> None:
        super().__init__(inner)
        self._then: Callable[[], None] | None = then

    def get(self, path: str) -> bytes:
        then, self._then = self._then, None
        if then is not None:
            then()
        return super().get(path)


def test_a_rescale_that_is_rolled_back_while_its_file_is_read_does_not_count(storage: Storage) -> None:
    first = put(storage, "00000000000000", BucketRule("us", 3))
    rescaled = put(storage, RESCALE, BucketRule("us", 5))
    assert load_config(_Interrupted(storage, lambda: storage.delete(rescaled.path))) == first


def test_files_that_are_listed_but_never_there_end_in_an_error(storage: Storage) -> None:
    class Gone(PassingStorage):
        def get(self, path: str) -> bytes:
            raise NotFound(path)

    put(storage, RESCALE, BucketRule("us", 5))
    with pytest.raises(InvalidTable, match="cannot be read"):
        load_config(Gone(storage))


def test_another_default_than_the_tables_is_refused(storage: Storage) -> None:
    put(storage, RESCALE, BucketRule("us", 5))
    with pytest.raises(UnsupportedTable, match=r"defaultBucketNumber is 2, spec\.table\.index\.buckets is 4"):
        load_rules(storage, 4)


def test_older_rules_are_found_also_when_hudi_archived_them(storage: Storage) -> None:
    put(storage, "00000000000000", BucketRule("us", 3), directory=ARCHIVE_DIRECTORY)
    put(storage, RESCALE, BucketRule("us", 5))
    assert [counts_at(storage, time, 2) for time in ("", "00000000000000", RESCALE, "20261123023048000")] == [
        BucketCounts(2),
        BucketCounts(2, (BucketRule("us", 3),)),
        BucketCounts(2, (BucketRule("us", 5),)),
        None,
    ]
