"""A process without Spark that merges: the file groups of a plan, or one slice. On one core, if wanted."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from bench.sides.process_tree import peak_rss_bytes
from bench.sides.protocol import Answer, serve, stay_on_core
from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.merge.merge_rules import MergeRules, merge_rules
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.table.schema import avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.compaction.commit import compaction_commit
from bucketingest.services.merge.merge_group import compact_group
from bucketingest.services.merge.slice_merge import SliceInput, merge_slices
from bucketingest.storage import open_storage
from bucketingest.write.open_table import stored_schema

_NEWEST: Final = "9" * 17
"""Blocks of any instant are merged."""


class Compaction:
    """The operations."""

    def compact(self, path: str, instant: str) -> Answer:
        """Carry out a pending plan: from opening the table to the content of the compaction's commit.

        `rows` are those of the new base files, `peak_bytes` the highest resident memory this process ever had.
        """
        started = time.monotonic()
        storage = open_storage(path)
        timeline = Timeline.load(storage)
        table = load_table(storage)
        schema, plan = stored_schema(table, timeline), read_compaction_plan(storage, instant)
        if schema is None or plan is None:
            raise InvalidTable(f"{path} has no schema or no plan of {instant}")
        rules = merge_rules(table, avro_to_arrow(with_meta_columns(schema)))
        stats = [compact_group(storage, each, instant, rules, token="0-0-0") for each in plan.operations]
        compaction_commit(stats, schema).encode()
        return {
            "seconds": time.monotonic() - started,
            "rows": sum(stat.num_writes for stat in stats),
            "files": [stat.path for stat in stats],
            "peak_bytes": peak_rss_bytes(os.getpid()),
        }

    def merge(self, path: str, base_file: str, log_files: list[str], ordering: str) -> Answer:
        """Merge one slice of files that are in no table, relative to `path`, into `path`/merged.parquet."""
        started = time.monotonic()
        rules = MergeRules(pq.read_schema(f"{path}/{base_file}"), ordering)
        files = SliceInput(base_file, log_files, _NEWEST)
        done = merge_slices(open_storage(path), [files], rules, file_name="merged", to=Path(path) / "merged.parquet")
        return {
            "seconds": time.monotonic() - started,
            "rows": done.rows,
            "updates": done.updates,
            "inserts": done.inserts,
            "peak_bytes": peak_rss_bytes(os.getpid()),
        }


if __name__ == "__main__":
    stay_on_core(sys.argv[1] or None)
    os.nice(int(sys.argv[2]))
    serve(Compaction)
