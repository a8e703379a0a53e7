"""The options with which Hudi's own writer works on tables with a bucket index, beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HudiWriter:
    """How Hudi's writer is configured for one table: bucket count and hash fields, too, as Hudi stores neither."""

    name: str
    record_key: Sequence[str]
    partition_by: Sequence[str] = ()
    ordering: str | None = None
    buckets: int = 4
    hash_fields: Sequence[str] | None = None
    """Default: the record key."""
    table_version: int = 9
    log_block: str = "parquet"
    """`parquet` or `avro`."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Options of writes."""
    everywhere: Mapping[str, str] = field(default_factory=dict)
    """Options of writes and of table services."""

    def session_conf(self) -> dict[str, str]:
        """What Hudi's compaction and clean procedures need, as they do not look at the table alone."""
        return {
            "hoodie.metadata.enable": "false",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(self.buckets),
            "hoodie.bucket.index.hash.field": ",".join(self.hash_fields or self.record_key),
            "hoodie.datasource.write.recordkey.field": ",".join(self.record_key),
            "hoodie.compact.inline.max.delta.commits": "1",
            **self.everywhere,
        }

    def options(self, operation: str) -> dict[str, str]:
        """Options of one write: no metadata table (it would hide our commits), no upgrade, no table services."""
        simple = len(self.record_key) == 1 and len(self.partition_by) <= 1
        generator = "SIMPLE" if simple else "COMPLEX"
        if not self.partition_by:
            generator = "NON_PARTITION"
        options = {
            **self.session_conf(),
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.partitionpath.field": ",".join(self.partition_by),
            "hoodie.datasource.write.keygenerator.type": generator,
            "hoodie.write.table.version": str(self.table_version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.logfile.data.block.format": self.log_block,
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.compact.inline": "false",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.upsert.shuffle.parallelism": "2",
            "hoodie.delete.shuffle.parallelism": "2",
        }
        if self.ordering is not None:
            options["hoodie.table.ordering.fields"] = self.ordering
        return {**options, **self.extra}
