"""A storage that is unavailable now and then: chosen changes fail, with or without their effect."""

from __future__ import annotations

from collections.abc import Callable

from bucketingest.storage import StorageUnavailable
from bucketingest.storage.interface import Storage
from support.storage.passing_storage import PassingStorage

Chooser = Callable[[str], bool]
"""Whether a change of this path fails; asked once per change."""


class FlakyStorage(PassingStorage):
    """Passes calls on to `inner`; the changes that `fails` chooses raise StorageUnavailable."""

    def __init__(self, inner: Storage, fails: Chooser, *, after_effect: bool = False) -> None:
        super().__init__(inner)
        self._fails = fails
        self._after_effect = after_effect
        self.failures = 0

    def _change(self, path: str, act: Callable[[], None]) -> None:
        failing = self._fails(path)
        if not failing or self._after_effect:
            act()
        if failing:
            self.failures += 1
            raise StorageUnavailable(f"{self.url}/{path}: the server answered 503; try again")
