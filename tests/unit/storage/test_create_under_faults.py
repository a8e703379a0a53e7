"""Create-if-absent when answers get lost, conditions are ignored and stores refuse: real HTTP, faults on demand."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from bucketingest.storage import (
    AccessDenied,
    AlreadyExists,
    Changed,
    ConditionalStorage,
    CreateIfAbsentBroken,
    InvalidLocation,
    ObjectTooLarge,
    Storage,
    StorageUnavailable,
    limits,
    open_storage,
    verify_create_if_absent,
)
from support.storage.scripted_s3 import ScriptedS3, scripted_s3


@pytest.fixture
def s3() -> Iterator[ScriptedS3]:
    with scripted_s3() as server:
        yield server


@pytest.fixture
def storage(s3: ScriptedS3, monkeypatch: pytest.MonkeyPatch) -> Storage:
    monkeypatch.setattr(limits, "CREATE_RETRY_PAUSE_S", 0.001)
    monkeypatch.setattr(limits, "RETRIES_MAX", 1)
    options = {"endpoint": s3.endpoint, "access_key_id": "TESTACCESS", "secret_access_key": "TESTSECRET"}
    return open_storage("s3://bucket/root", options)


def test_a_create_whose_answer_was_lost_succeeds(s3: ScriptedS3, storage: Storage) -> None:
    s3.lost_answers = 1
    storage.create("object", b"mine")
    assert storage.get("object") == b"mine"


def test_a_create_whose_answers_are_all_lost_succeeds_once_it_is_seen(s3: ScriptedS3, storage: Storage) -> None:
    s3.lost_answers = 100
    storage.create("object", b"mine")
    s3.lost_answers = 0
    with pytest.raises(AlreadyExists):
        storage.create("object", b"mine")


def test_a_create_whose_request_was_lost_is_tried_again(s3: ScriptedS3, storage: Storage) -> None:
    s3.lost_requests = 1
    storage.create("object", b"mine")
    assert storage.get("object") == b"mine"


def test_a_create_whose_answer_was_lost_differs_from_an_equal_one_of_another_writer(
    s3: ScriptedS3, storage: Storage
) -> None:
    storage.create("object", b"equal")
    s3.lost_requests = 1
    with pytest.raises(AlreadyExists):
        storage.create("object", b"equal")


def test_tries_are_bounded_and_the_error_is_transient(s3: ScriptedS3, storage: Storage) -> None:
    s3.lost_requests = 1000
    with pytest.raises(StorageUnavailable, match="s3://bucket/root/object"):
        storage.create("object", b"mine")
    assert s3.puts <= limits.CREATE_TRIES_MAX * (limits.RETRIES_MAX + 1)
    assert s3.objects == {}


def test_a_conflict_that_leaves_nothing_is_tried_again(s3: ScriptedS3, storage: Storage) -> None:
    s3.refusals = [(409, "ConditionalRequestConflict")]
    storage.create("object", b"mine")
    assert storage.get("object") == b"mine"


def test_a_refusal_in_the_middle_of_an_upload_means_the_name_is_taken(
    s3: ScriptedS3, storage: Storage, tmp_path: pathlib.Path
) -> None:
    storage.create("object", b"first")
    s3.refuses_early = True
    large = tmp_path / "large"
    large.write_bytes(b"x" * (limits.QUICK_BYTES_MAX + 1))
    with pytest.raises(AlreadyExists):
        storage.create("object", large)
    assert storage.get("object") == b"first"


def test_a_store_that_ignores_the_condition_is_detected(s3: ScriptedS3, storage: Storage) -> None:
    s3.ignores_conditions = True
    with pytest.raises(CreateIfAbsentBroken, match=r"s3://bucket/root/probes/.*use a store with conditional writes"):
        verify_create_if_absent(storage, "probes")
    assert s3.objects == {}


def test_a_store_that_heeds_the_condition_passes(s3: ScriptedS3, storage: Storage) -> None:
    verify_create_if_absent(storage, "probes")
    assert s3.objects == {}


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        ((403, "AccessDenied"), AccessDenied),
        ((400, "ExpiredToken"), AccessDenied),
        ((404, "NoSuchBucket"), InvalidLocation),
        ((400, "InvalidBucketName"), InvalidLocation),
        ((400, "EntityTooLarge"), InvalidLocation),
        ((501, "NotImplemented"), InvalidLocation),
        ((400, "RequestTimeout"), StorageUnavailable),
        ((429, "SlowDown"), StorageUnavailable),
        ((503, "SlowDown"), StorageUnavailable),
        ((500, "InternalError"), StorageUnavailable),
    ],
)
@pytest.mark.parametrize("method", ["create", "put"])
def test_a_refusal_becomes_our_error_with_the_stores_reason(
    s3: ScriptedS3, storage: Storage, method: str, refusal: tuple[int, str], expected: type[Exception]
) -> None:
    s3.refusals = [refusal] * 20
    with pytest.raises(expected, match=rf"s3://bucket/root/a b: {method} failed: .*{refusal[1]}") as caught:
        getattr(storage, method)("a b", b"x")
    assert "TESTSECRET" not in str(caught.value)
    assert "TESTACCESS" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_what_one_request_cannot_take_is_refused_before_it_is_sent(
    s3: ScriptedS3, storage: Storage, tmp_path: pathlib.Path
) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(limits.S3_PUT_BYTES_MAX + 1)
    for write in (storage.create, storage.put):
        with pytest.raises(ObjectTooLarge, match=str(limits.S3_PUT_BYTES_MAX)):
            write("object", sparse)
    assert s3.puts == 0


@pytest.fixture
def swapping(storage: Storage) -> ConditionalStorage:
    assert isinstance(storage, ConditionalStorage)
    storage.create("lock", b"before")
    return storage


def test_a_replace_whose_answer_was_lost_succeeds_and_knows_its_version(
    s3: ScriptedS3, swapping: ConditionalStorage
) -> None:
    _, version = swapping.get_versioned("lock")
    s3.lost_answers = 1
    version = swapping.replace("lock", b"mine", version)
    assert swapping.replace("lock", b"mine again", version) == swapping.get_versioned("lock")[1]


def test_a_replace_whose_answer_was_lost_differs_from_an_equal_one_of_another_writer(
    s3: ScriptedS3, swapping: ConditionalStorage
) -> None:
    _, version = swapping.get_versioned("lock")
    swapping.replace("lock", b"equal", version)
    s3.lost_requests = 1
    with pytest.raises(Changed, match=r"s3://bucket/root/lock: replace failed"):
        swapping.replace("lock", b"equal", version)


def test_a_replace_whose_requests_are_all_lost_is_unavailable(s3: ScriptedS3, swapping: ConditionalStorage) -> None:
    _, version = swapping.get_versioned("lock")
    s3.lost_requests = 1000
    with pytest.raises(StorageUnavailable):
        swapping.replace("lock", b"mine", version)
    s3.lost_requests = 0
    assert swapping.get("lock") == b"before"
