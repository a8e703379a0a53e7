"""What is known of a table before a micro-batch: how full file groups are, how rows spread over partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PartitionProfile:
    """One partition."""

    recent_rows: int = 0
    """Rows that the last micro-batches wrote to it: only the partitions' proportions count."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """File id to bytes of the newest slice. Without groups that must take no new keys: those in a pending compaction or
    clustering, and replaced ones.
    """


@dataclass(frozen=True, slots=True)
class WriteProfile:
    """A table."""

    partitions: Mapping[str, PartitionProfile]
    """By partition path: those of the last micro-batches, and others that have groups with room."""
    insert_bytes: int
    """Bytes on storage that the micro-batch's new keys are expected to take, in all partitions."""

    def share(self, partition_path: str) -> tuple[int, int]:
        """The partition's share of the rows, as a fraction of integers: the numerator, the denominator."""
        total = sum(each.recent_rows for each in self.partitions.values())
        return self.partitions[partition_path].recent_rows, max(total, 1)

    def expected_bytes(self, partition_path: str) -> int:
        """Bytes of the partition's new keys."""
        rows, total = self.share(partition_path)
        return self.insert_bytes * rows // total
