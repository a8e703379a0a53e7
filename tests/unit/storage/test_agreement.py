"""Of several processes that create an object, all get the content of the first."""

import uuid

import pytest

from bucketingest.storage import NotFound, Storage, create_or_get, created, get_if_there, open_storage
from support.storage.flaky_storage import FlakyStorage
from support.storage.passing_storage import PassingStorage


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}/table")


def test_the_first_content_counts(storage: Storage) -> None:
    assert create_or_get(storage, "a", b"first") == b"first"
    assert create_or_get(storage, "a", b"second") == b"first"
    assert get_if_there(storage, "a") == b"first"


def test_only_the_first_has_created_it_even_with_equal_content(storage: Storage) -> None:
    assert created(storage, "a", b"x")
    assert not created(storage, "a", b"x")


def test_nothing_is_there_before(storage: Storage) -> None:
    assert get_if_there(storage, "a") is None


def test_an_answer_that_is_lost_is_found_by_the_next_try(storage: Storage) -> None:
    flaky = FlakyStorage(storage, lambda path: path == "a", after_effect=True)
    with pytest.raises(Exception, match="503"):
        create_or_get(flaky, "a", b"x")
    assert create_or_get(storage, "a", b"x") == b"x"


def test_an_object_that_is_deleted_meanwhile_is_said(storage: Storage) -> None:
    class Deleted(PassingStorage):
        """Another process deletes the object between the create and the get."""

        def get(self, path: str) -> bytes:
            storage.delete(path)
            return super().get(path)

    storage.create("a", b"x")
    with pytest.raises(NotFound):
        create_or_get(Deleted(storage), "a", b"y")
