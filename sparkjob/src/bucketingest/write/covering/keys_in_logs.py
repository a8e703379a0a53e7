"""Refuses to put new keys into base files of a table that has some in log files only: the table would be taken for one
that Hudi's BLOOM and SIMPLE indexes know all keys of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.table.file_view import FileGroup
from bucketingest.index.state.key_columns import keys_in_logs_only
from bucketingest.storage import Storage
from bucketingest.write.covering.written_keys import Logs


def refuse_keys_in_logs(storage: Storage, groups: Mapping[str, FileGroup], refused: Logs) -> None:
    """Raise UnsupportedTable if one of these log files with new keys is still read, and has a row with a key that its
    base file lacks. It has none if all its new keys were deletes of keys that the table never had.
    """
    for group in groups.values():
        names, latest = refused.get((group.partition_path, group.file_id), ()), group.latest
        logs = tuple(log for log in latest.log_files if str(log.name) in names) if latest is not None else ()
        if latest is not None and logs and len(keys_in_logs_only(storage, replace(latest, log_files=logs))):
            reason = (
                f"new keys are in log files, such as {logs[0].path}, and spec.table.index.inserts is base, so that "
                "Hudi's BLOOM and SIMPLE indexes find every key: run `bucketingest handover` first, or take log"
            )
            raise UnsupportedTable(storage.url, [reason])
