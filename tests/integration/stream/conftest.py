"""One Spark session for all tests here, as starting a JVM is the slowest part; a folder and topics for each test."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bucketingest.stream.spark.session import build_session
from devservers.kafka import KafkaBroker
from devservers.locations import require
from devservers.registry import SchemaRegistry
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of `bucketingest run`, small."""
    require("connectors")
    folder = tmp_path_factory.mktemp("spark")
    resource = Lake(folder).resource(
        {"rate": {"rowsPerSecond": 1}},
        table={"recordKey": ["value"]},
        spark={
            "driver": {"memory": "1Gi"},
            "executor": {"memory": "1Gi"},
            "conf": {
                "spark.scheduler.mode": "FAIR",  # as with many tables
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
            },
        },
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MASTER", "local[2]")
        session = build_session(resource)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[SchemaRegistry]:
    """A running registry; each test has subjects of its own."""
    with SchemaRegistry() as registry:
        yield registry


@pytest.fixture
def run(spark: SparkSession) -> Runner:
    return Runner(spark)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def new_topic(kafka_broker: KafkaBroker, request: pytest.FixtureRequest) -> NewTopic:
    """Topics with the test's name, numbered."""
    numbers = itertools.count()

    def create(*, partitions: int = 1) -> Topic:
        name = f"{re.sub('[^A-Za-z0-9]+', '-', request.node.name)[-80:]}-{next(numbers)}"
        kafka_broker.create_topic(name, partitions=partitions)
        return Topic(kafka_broker, name)

    return create
