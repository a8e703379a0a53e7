"""Tables and files that Hudi wrote, unpacked for a test, and what is known to be in their log files."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

HUDI_FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "hudi"

JAVA_TABLES = tuple(f"java_v{version}_{blocks}" for version in (6, 8, 9) for blocks in ("avro", "parquet"))

UPSERTED_KEYS_IN_LOGS = {f"key-{number:04}" for number in range(10)}
"""The keys of the first batch: the second batch's others (10 and 11) came to new buckets, so into base files."""
KEYS_WITHOUT_TAGS = {"key-0000", "key-0003", "key-0006", "key-0009"}
DELETED_KEYS = {"key-0003", "key-0005"}


def unpack_fixture(name: str, tmp_path: Path) -> Path:
    """Unpack the table `name` (`java_v9_avro`, ...) below `tmp_path`; returns the table's root."""
    with tarfile.open(HUDI_FIXTURES / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / name


def properties_fixture(name: str) -> str:
    """Text of a hoodie.properties that Hudi wrote (`np9`, `multi8`, ...; see the fixtures' README)."""
    return (HUDI_FIXTURES / "properties" / f"{name}.properties").read_text("iso-8859-1")


def log_files(table: str) -> Iterator[tuple[str, bytes]]:
    """Path inside the table and bytes of each log file of a fixture table, sorted by path."""
    with tarfile.open(HUDI_FIXTURES / f"{table}.tar.gz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            name = Path(member.name).name
            if member.isfile() and name.startswith(".") and ".log." in name and not name.endswith(".crc"):
                extracted = archive.extractfile(member)
                assert extracted is not None
                yield member.name.partition("/")[2], extracted.read()
