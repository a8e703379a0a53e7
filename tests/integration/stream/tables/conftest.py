"""Topics of a test on the session's broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from devservers.kafka import KafkaBroker
from support.jobs.many_topics import Topics


@pytest.fixture
def topics(kafka_broker: KafkaBroker, tmp_path: Path) -> Topics:
    return Topics(kafka_broker, tmp_path)
