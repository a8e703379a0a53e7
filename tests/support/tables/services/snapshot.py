"""What a snapshot reader sees of a table in memory: the latest file slices, merged row by row in Python."""

from __future__ import annotations

import io
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq

from bucketingest.hudi.log.reader import read_log
from bucketingest.hudi.naming import BaseFileName, parse_data_file_name
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import list_data, load_file_view
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage


def _as_row(ordering: Any) -> Any:
    """An entry's ordering value as a row has it: timestamps are in microseconds."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=ordering)


def snapshot(storage: Storage, ordering: str = "at") -> dict[str, dict[str, Any]]:
    """Record key -> row without file name. Raises AssertionError for a key that is shown in two file groups."""
    rows: dict[str, dict[str, Any]] = {}
    timeline = Timeline.load(storage)
    replaced = replaced_file_groups(storage, timeline)
    for group in load_file_view(storage, timeline).groups:
        if group.latest is None or (group.partition_path, group.file_id) in replaced:
            continue
        merged: dict[str, dict[str, Any]] = {}
        deleted: dict[str, Any] = {}
        if group.latest.base_file is not None:
            for row in _base_rows(storage, group.latest.base_file.path):
                assert row["_hoodie_record_key"] not in merged
                merged[row["_hoodie_record_key"]] = row
        for log in group.latest.log_files:
            for content in read_log(storage.get(log.path)):
                for row in content.rows.to_pylist() if content.rows is not None else ():
                    key = row["_hoodie_record_key"]
                    older = merged[key][ordering] if key in merged else deleted.get(key)
                    if older is None or row[ordering] >= older:
                        merged[key] = row
                for entry in content.deletes:
                    key, at = entry.record_key, _as_row(entry.ordering)
                    older = merged[key][ordering] if key in merged else deleted.get(key)
                    if older is None or at >= older:
                        merged.pop(key, None)
                        deleted[key] = at
        assert not rows.keys() & merged.keys()
        rows |= merged
    return {key: {name: row[name] for name in row if name != "_hoodie_file_name"} for key, row in rows.items()}


def _base_rows(storage: Storage, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(storage.get(path))).to_pylist()
    return rows


def doubled_base_files(storage: Storage) -> list[tuple[str, str, str]]:
    """Partition path, file id and instant of which there are two base files: hudi-rs fails at them."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for info in list_data(storage):
        partition_path, _, file_name = info.path.rpartition("/")
        name = parse_data_file_name(file_name)
        if isinstance(name, BaseFileName):
            counts[partition_path, name.file_id, name.instant] += 1
    return [place for place, count in counts.items() if count > 1]
