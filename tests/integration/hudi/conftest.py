"""Hudi itself and the tables that it wrote, for tests in which Hudi judges."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.oracle.client import HudiOracle
from support.oracle.environment import OracleEnvironment, OracleUnavailableError, find_environment

HUDI_TABLES = Path(__file__).parents[2] / "fixtures" / "hudi"


@pytest.fixture(scope="session")
def oracle_environment() -> OracleEnvironment:
    """The installed oracle; without it the test fails, as a skipped judge would look like a verdict."""
    try:
        return find_environment()
    except OracleUnavailableError as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def hudi(oracle_environment: OracleEnvironment) -> Iterator[HudiOracle]:
    """Hudi's Spark bundle, started once for the whole test run."""
    with HudiOracle.start(oracle_environment) as oracle:
        yield oracle


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
