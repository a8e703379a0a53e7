"""Real servers, one of each per session, started when the first test asks for it; the marker of every test here."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from devservers.kafka import KafkaBroker
from devservers.s3 import S3Server

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark all tests of this folder, so that no module has to. A folder's tests run in one process, with one server or
    session of each kind, while another process runs those of another folder (`--dist loadgroup`).
    """
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(HERE).parts[0]))


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """A running broker; each test creates topics of its own."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A running S3 server; each test creates a bucket of its own."""
    with S3Server() as server:
        yield server
