"""Real servers, one of each per test process, started when a test first asks for it; the marker of every test here."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devservers.kafka import KafkaBroker
from devservers.mirror.databases import MariaDB, Postgres
from devservers.s3 import S3Server
from support.oracle.client import HudiOracle
from support.oracle.environment import OracleEnvironment, OracleUnavailableError, find_environment

HERE = Path(__file__).parent

# Each of these JVMs lives for seconds: a second compiler and the verification of classes cost more than they save.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
# The JVM writes its doubts about an archive to the standard output, which commands promise to keep for themselves.
_ARCHIVE = Path(sys.prefix) / "spark.jsa"
if _ARCHIVE.exists():
    _SHORT_LIVED += f" -XX:SharedArchiveFile={_ARCHIVE} -Xlog:disable"
    _CLASS_PATH = _ARCHIVE.with_name("spark.jsa.classpath").read_text(encoding="utf-8")
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--driver-class-path {_CLASS_PATH} pyspark-shell")
os.environ.setdefault("SPARK_SUBMIT_OPTS", _SHORT_LIVED)

LONGEST = ("cli/test_contract.py", "soak/test_soak.py", "cli/test_run.py", "docsite/test_laptop.py")
"""Files that take minutes. They come first (with --no-loadscope-reorder), so that no worker waits for the last one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, so that no module has to; the longest files come first."""
    items.sort(key=lambda item: _rank(item.path))
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)


def _rank(path: Path) -> int:
    """The place of a file among the longest ones; the others come after these, in their order."""
    name = path.relative_to(HERE).as_posix() if path.is_relative_to(HERE) else ""
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """A running broker; each test creates topics of its own."""
    with KafkaBroker(tls=True) as broker:
        yield broker


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL; each test creates tables of its own."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """A running MariaDB; each test creates tables of its own."""
    with MariaDB() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A running S3 server; each test creates a bucket of its own."""
    with S3Server() as server:
        yield server


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
