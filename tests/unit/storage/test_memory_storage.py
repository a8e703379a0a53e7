"""Memory: the common behaviour, and that it never pretends to be shared with another process."""

from __future__ import annotations

import os
import uuid

import pytest

from bucketingest.storage import ConditionalStorage, InvalidLocation, Storage, open_storage
from support.storage.conditional_behaviour import ConditionalBehaviour
from support.storage.storage_behaviour import ODD_NAMES, StorageBehaviour


class TestMemory(StorageBehaviour):
    @pytest.fixture
    def storage(self) -> Storage:
        return open_storage(f"memory://{uuid.uuid4()}/a root=%20#")


class TestMemoryCompareAndSwap(ConditionalBehaviour):
    @pytest.fixture
    def storage(self) -> ConditionalStorage:
        storage = open_storage(f"memory://{uuid.uuid4()}/root")
        assert isinstance(storage, ConditionalStorage)
        return storage


def test_the_same_name_is_the_same_storage() -> None:
    name = uuid.uuid4()
    open_storage(f"memory://{name}/table").create("a", b"x")
    assert open_storage(f"memory://{name}").get("table/a") == b"x"
    assert not open_storage(f"memory://{name}-other/table").exists("a")


def test_another_process_is_refused_rather_than_shown_an_empty_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(f"memory://{uuid.uuid4()}")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(InvalidLocation, match="one process"):
        storage.list_level()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_root_of_any_name_is_kept(name: str) -> None:
    store = uuid.uuid4()
    open_storage(f"memory://{store}/{name}").create("a", b"x")
    assert [info.path for info in open_storage(f"memory://{store}").list()] == [f"{name}/a"]
