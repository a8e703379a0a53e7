"""Real servers, one of each per test process, started when a test first asks for it; the marker of every test here."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from devservers.kafka import KafkaBroker
from devservers.s3 import S3Server

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark all tests of this folder, so that no module has to."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integration)


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
