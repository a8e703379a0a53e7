"""The tables that Hudi wrote, for tests in which Hudi judges."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

HUDI_TABLES = Path(__file__).parents[2] / "fixtures" / "hudi"


@pytest.fixture
def hudi_written_table(tmp_path: Path) -> Callable[[str], Path]:
    """Unpacks a table that Hudi wrote (`java_v9_avro`, ...) into the test's own folder.

    Its `.crc` files come along: Hadoop's local file system checks them, so whoever rewrites a file must remove them.
    """

    def unpack(name: str) -> Path:
        with tarfile.open(HUDI_TABLES / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        return tmp_path / name

    return unpack
