"""Real servers, one of each per session, started when the first test asks for it."""

from collections.abc import Iterator

import pytest

from devservers.kafka import KafkaBroker
from devservers.s3 import S3Server


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
