"""The Spark session a resource asks for, with the settings that the write path relies on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from bucketingest.spec.model import BucketIngest
from bucketingest.stream.spark.conf import REQUIRED_CONF, conf_of_run, connector_jars, session_conf
from bucketingest.stream.spark.jvm import start_jvm
from bucketingest.stream.spark.launch import Launched

_CHECKING_BYTES: Final = 512 * 1024**2


def jvm_ahead(resource: BucketIngest, launched: Launched | None = None) -> Future[None]:
    """Start the JVM of `build_session` in a thread: that takes seconds, in which this one imports what the job needs.
    `launched`: its process, if it runs already.

    The future ends with the JVM running, or with JvmFailed. Wait for it before anything else is done with a JVM.
    """
    executor = ThreadPoolExecutor(1, "jvm")
    started = executor.submit(start_jvm, conf_of_run(resource), launched)
    executor.shutdown(wait=False)
    return started


_early: list[Future[None]] = []


def start_jvm_early(resource: BucketIngest, launched: Launched | None) -> None:
    """As `jvm_ahead`, before anything else of the command is imported. `take_early_jvm` hands the future over."""
    _early.append(jvm_ahead(resource, launched))


def take_early_jvm() -> Future[None] | None:
    """The JVM that was started early, once; it is the caller's to end."""
    return _early.pop() if _early else None


def build_session(resource: BucketIngest) -> SparkSession:
    """The session for `bucketingest run`: local unless the environment names a master."""
    return _built(resource, conf_of_run(resource))


def checking_session(resource: BucketIngest) -> SparkSession:
    """A small local session that reads no rows: it analyses what the resource says, and has Kafka's client."""
    small = {"memory": _CHECKING_BYTES}
    spark = resource.spec.spark
    spark = spark.model_copy(
        update={
            "driver": spark.driver.model_copy(update=small),
            "executor": spark.executor.model_copy(update=small),
        }
    )
    resource = resource.model_copy(update={"spec": resource.spec.model_copy(update={"spark": spark})})
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _built(resource, {**session_conf(resource, None, connector_jars()), "spark.master": "local[1]"})


def _built(resource: BucketIngest, conf: dict[str, str]) -> SparkSession:
    start_jvm(conf)
    builder = SparkSession.builder.appName(f"bucketingest {resource.pipeline}")
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def prepared(session: SparkSession) -> Iterator[None]:
    """Set what the write path relies on while a query is made and started: Spark copies the session's settings for it.

    The session, which may be the user's own, gets its settings back afterwards.
    """
    had = {name: session.conf.get(name, None) for name in REQUIRED_CONF}
    before = {name: old for name, old in had.items() if old != REQUIRED_CONF[name]}
    try:
        for name in before:
            session.conf.set(name, REQUIRED_CONF[name])
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)


def own_session(session: SparkSession) -> SparkSession:
    """A session on the same context with the settings of this one now: what is run in it later still has them, as the
    queries that Spark copies them for.
    """
    return SparkSession(session.sparkContext, session._jsparkSession.cloneSession())  # noqa: SLF001 - as PySpark's newSession
