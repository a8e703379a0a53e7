"""What every storage that compares and swaps does: a test class per backend inherits this and provides `storage`."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bucketingest.storage import Changed, ConditionalStorage, NotFound


class ConditionalBehaviour:
    """Inherit and define a fixture `storage` with an empty storage."""

    RACERS = 8

    @pytest.fixture
    def storage(self) -> ConditionalStorage:
        raise NotImplementedError

    def test_it_says_that_it_can(self, storage: ConditionalStorage) -> None:
        assert isinstance(storage, ConditionalStorage)

    def test_a_version_that_was_read_can_be_replaced_once(self, storage: ConditionalStorage) -> None:
        storage.create("a/lock", b"first")
        content, version = storage.get_versioned("a/lock")
        assert content == b"first"
        storage.replace("a/lock", b"second", version)
        assert storage.get("a/lock") == b"second"
        with pytest.raises(Changed, match="a/lock"):
            storage.replace("a/lock", b"third", version)
        assert storage.get("a/lock") == b"second"

    def test_what_a_replace_returns_is_the_next_condition(self, storage: ConditionalStorage) -> None:
        storage.create("lock", b"0")
        _, version = storage.get_versioned("lock")
        for number in range(1, 4):
            version = storage.replace("lock", [b"n", str(number).encode()], version)
        assert storage.get_versioned("lock") == (b"n3", version)

    def test_a_put_makes_another_version(self, storage: ConditionalStorage) -> None:
        storage.put("lock", b"before")
        _, version = storage.get_versioned("lock")
        storage.put("lock", b"after")
        with pytest.raises(Changed):
            storage.replace("lock", b"late", version)

    def test_what_is_gone_is_not_brought_back(self, storage: ConditionalStorage) -> None:
        with pytest.raises(NotFound):
            storage.get_versioned("lock")
        storage.create("lock", b"there")
        _, version = storage.get_versioned("lock")
        storage.delete("lock")
        with pytest.raises((Changed, NotFound)):
            storage.replace("lock", b"again", version)
        assert not storage.exists("lock")

    def test_of_racing_replaces_exactly_one_wins(self, storage: ConditionalStorage) -> None:
        storage.create("lock", b"free")
        for round_number in range(5):
            _, version = storage.get_versioned("lock")
            start = threading.Barrier(self.RACERS)

            def compete(number: int, condition=version, start=start, turn=round_number) -> bytes | None:  # type: ignore[no-untyped-def]
                # S3's ETag is of the content: what was there before would bring the old version back, and a second win
                content = f"racer {number} of round {turn}".encode()
                start.wait()
                try:
                    storage.replace("lock", content, condition)
                except Changed:
                    return None
                return content

            with ThreadPoolExecutor(self.RACERS) as pool:
                wins = [win for win in pool.map(compete, range(self.RACERS)) if win is not None]
            assert wins == [storage.get("lock")]
