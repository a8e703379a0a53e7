"""The log files in tables that Hudi's own Spark writer wrote, and what is known to be in them."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

from support.tables.fixtures import HUDI_FIXTURES

JAVA_TABLES = tuple(f"java_v{version}_{blocks}" for version in (6, 8, 9) for blocks in ("avro", "parquet"))

UPSERTED_KEYS_IN_LOGS = {f"key-{number:04}" for number in range(10)}
"""The keys of the first batch: the second batch's others (10 and 11) came to new buckets, so into base files."""
KEYS_WITHOUT_TAGS = {"key-0000", "key-0003", "key-0006", "key-0009"}
DELETED_KEYS = {"key-0003", "key-0005"}


def log_files(table: str) -> Iterator[tuple[str, bytes]]:
    """Path inside the table and bytes of each log file of a fixture table, sorted by path."""
    with tarfile.open(HUDI_FIXTURES / f"{table}.tar.gz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            name = Path(member.name).name
            if member.isfile() and name.startswith(".") and ".log." in name and not name.endswith(".crc"):
                extracted = archive.extractfile(member)
                assert extracted is not None
                yield member.name.partition("/")[2], extracted.read()
