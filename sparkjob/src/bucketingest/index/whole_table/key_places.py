"""Where keys are now, in a table in which a key is in one partition only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.index.state.hashing import KeyHasher, KeyHashes
from bucketingest.index.state.runs.look_up import UNKNOWN, PartitionLookUp
from bucketingest.index.whole_table.identity import group_of


@dataclass(frozen=True)
class KeyPlaces:
    """The state of one plan. Pure, as the plan's assignment is."""

    hasher: KeyHasher
    look_up: PartitionLookUp | None
    """None: the table has no keys."""

    @cached_property
    def groups(self) -> tuple[tuple[str, str], ...]:
        """Partition path and file id by number."""
        return () if self.look_up is None else tuple(map(group_of, self.look_up.groups))

    def find(self, record_keys: pa.Array) -> tuple[npt.NDArray[np.int64], KeyHashes]:
        """The number of each key's file group, or UNKNOWN; and the keys' hashes."""
        keys = self.hasher.hash(record_keys)
        if self.look_up is None:
            return np.full(len(keys), UNKNOWN, np.int64), keys
        return self.look_up.find(keys).astype(np.int64), keys
