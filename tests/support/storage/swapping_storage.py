"""Lets a storage that passes calls on compare and swap, too, if the one behind it can."""

from __future__ import annotations

from bucketingest.storage import ConditionalStorage, Data, Version
from support.storage.passing_storage import PassingStorage


class Swapping(PassingStorage):
    """Put it before another passing storage: each swap is a change."""

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        self._before_read()
        return self._conditional.get_versioned(path)

    def replace(self, path: str, data: Data, version: Version) -> Version:
        written: list[Version] = []
        self._change(path, lambda: written.append(self._conditional.replace(path, data, version)))
        return written[0]

    @property
    def _conditional(self) -> ConditionalStorage:
        assert isinstance(self._inner, ConditionalStorage)
        return self._inner
