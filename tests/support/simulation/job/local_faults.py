"""What fails where a table service runs, and not in the table: a full disk, pages that cannot be read, an object that
the store does not take. One file group of the table has it; the services of all others go on.
"""

from __future__ import annotations

import errno
import random
import re
from typing import Final, Literal

from bucketingest.storage import ObjectTooLarge
from bucketingest.storage.interface import Data
from support.simulation.judge.files import data_file
from support.simulation.view import View

LocalFault = Literal["full disk", "damaged", "too large"]
LOCAL_FAULTS: Final[tuple[LocalFault, ...]] = ("full disk", "damaged", "too large")
_TIMES: Final = 4
_SPARED: Final = re.compile(r".*\.log\..*")


class LocalFaults:
    """The fault of a schedule, and the file group that has it: the first that an executor touches after a while."""

    def __init__(self, rng: random.Random, kind: LocalFault) -> None:
        self._kind = kind
        self._spared = rng.randrange(4)
        self._group: tuple[str, str] | None = None
        self._left = rng.randint(1, _TIMES)

    def reads(self, path: str, content: bytes) -> bytes:
        """What an executor gets of a file. Raises OSError."""
        if self._kind == "full disk" and self._hits(path) and self._left:
            self._left -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        if self._kind == "damaged" and not _SPARED.fullmatch(path) and self._hits(path):
            return content[:4] + b"\xff" * (len(content) // 2) + content[4 + len(content) // 2 :]
        return content

    def creates(self, path: str) -> None:
        """An executor sends a file. Raises ObjectTooLarge."""
        if self._kind == "too large" and self._hits(path):
            raise ObjectTooLarge(f"{path} has more bytes than the store takes in one request")

    def _hits(self, path: str) -> bool:
        file = data_file(path)
        if file is None:
            return False
        if self._group is None and self._spared:
            self._spared -= 1
            return False
        self._group = self._group or file.group
        return file.group == self._group


class ExecutorView(View):
    """The table as an executor of a service sees it."""

    local: LocalFaults | None = None

    def get(self, path: str) -> bytes:
        content = super().get(path)
        return content if self.local is None else self.local.reads(path, content)

    def create(self, path: str, data: Data) -> None:
        if self.local is not None:
            self.local.creates(path)
        super().create(path, data)
