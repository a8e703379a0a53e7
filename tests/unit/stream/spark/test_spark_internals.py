"""What the job uses of Spark beyond its public API: the installed PySpark must have it, with these parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pyspark
import pyspark.worker
import pytest
from pyspark import SparkContext, accumulators, daemon
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame
from pyspark.sql.classic.column import Column
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from bucketingest.stream.spark import conf
from bucketingest.stream.spark.failures import _CHECKPOINTS

JARS = Path(pyspark.__file__).parent / "jars"


def depends(module: str) -> str:
    return f"bucketingest.stream.{module} depends on what PySpark {pyspark.__version__} does not have"


@cache
def in_jar(jar: str, name: str) -> bytes:
    """The bytes of the files whose names start with `name` in one of Spark's jars."""
    (path,) = JARS.glob(f"{jar}_*.jar")
    with ZipFile(path) as archive:
        return b"".join(archive.read(each) for each in archive.namelist() if each.startswith(name))


def constant(text: str) -> bytes:
    """A text as it stands in a class file: tag, length, bytes."""
    return b"\x01" + len(text).to_bytes(2) + text.encode()


@pytest.mark.parametrize(
    ("module", "call", "arguments"),
    [
        ("spark.jvm", launch_gateway, {"conf": None, "popen_kwargs": {}}),
        ("spark.jvm", SparkContext._ensure_initialized, {"gateway": None}),
        ("spark.jvm", accumulators.AccumulatorTCPServer.handle_error, {"self": 0, "request": 0, "client_address": 0}),
        ("spark.jvm", accumulators.AccumulatorUnixServer.handle_error, {"self": 0, "request": 0, "client_address": 0}),
        ("spark.worker_daemon", daemon.manager, {}),
        ("spark.arrow_map", UserDefinedFunction, {"func": 0, "returnType": "", "evalType": 0}),
    ],
)
def test_a_call_takes_the_arguments_that_it_gets(
    module: str, call: Callable[..., Any], arguments: dict[str, object]
) -> None:
    try:
        inspect.signature(call).bind(**arguments)
    except TypeError as error:
        pytest.fail(f"{depends(module)}: {error}")


@pytest.mark.parametrize("name", ["_gateway", "_jvm"])
def test_the_gateway_is_kept_in_the_class(name: str) -> None:
    assert name in vars(SparkContext), depends("spark.jvm")
    assert name in SparkContext._ensure_initialized.__code__.co_names, depends("spark.jvm")


@pytest.mark.parametrize(
    ("module", "function", "attribute"),
    [
        ("spark.jvm", launch_gateway, "proc"),
        ("spark.executors", SparkContext._do_init, "_jsc"),
        ("spark.failures", CapturedException.__init__, "_stackTrace"),
    ],
)
def test_the_attribute_is_set(module: str, function: Callable[..., object], attribute: str) -> None:
    assert attribute in function.__code__.co_names, depends(module)


def test_columns_and_frames_wrap_objects_of_the_jvm() -> None:
    there = SimpleNamespace()
    assert Column(there)._jc is there, depends("spark.arrow_map")
    frame = DataFrame(there, SimpleNamespace(_sc=None))  # type: ignore[arg-type]
    assert frame._jdf is there, depends("spark.arrow_map and source.traced")


def test_the_code_that_writes_checkpoints_is_in_its_package() -> None:
    writer = f"{_CHECKPOINTS.replace('.', '/')}HDFSMetadataLog.class"
    assert in_jar("spark-sql", writer), depends("spark.failures")


def test_workers_know_the_kind_of_function() -> None:
    assert hasattr(PythonEvalType, "SQL_MAP_ARROW_ITER_UDF"), depends("spark.arrow_map")
    assert callable(pyspark.worker.main), depends("spark.worker_daemon")


def descriptor(parameters: str, result: str) -> str:
    return f"({parameters})L{result};"


@pytest.mark.parametrize(
    ("module", "jar", "class_name", "method", "signature"),
    [
        (
            "spark.arrow_map",
            "spark-sql",
            "org/apache/spark/sql/classic/Dataset.class",
            "mapInArrow",
            descriptor(
                "Lorg/apache/spark/sql/Column;ZLorg/apache/spark/resource/ResourceProfile;",
                "org/apache/spark/sql/classic/Dataset",
            ),
        ),
        (
            "source.traced",
            "spark-sql",
            "org/apache/spark/sql/classic/Dataset.class",
            "ofRows",
            descriptor(
                "Lorg/apache/spark/sql/classic/SparkSession;Lorg/apache/spark/sql/catalyst/plans/logical/LogicalPlan;",
                "org/apache/spark/sql/classic/Dataset",
            ),
        ),
        (
            "source.traced",
            "spark-catalyst",
            "org/apache/spark/sql/catalyst/optimizer/InlineCTE.class",
            "<init>",
            "(ZZ)V",
        ),
        (
            "source.traced",
            "spark-catalyst",
            "org/apache/spark/sql/catalyst/plans/logical/Project.class",
            "copy",
            descriptor(
                "Lscala/collection/immutable/Seq;Lorg/apache/spark/sql/catalyst/plans/logical/LogicalPlan;",
                "org/apache/spark/sql/catalyst/plans/logical/Project",
            ),
        ),
        (
            "source.traced",
            "spark-sql",
            "org/apache/spark/sql/classic/Dataset.class",
            "queryExecution",
            descriptor("", "org/apache/spark/sql/execution/QueryExecution"),
        ),
        (
            "source.traced",
            "spark-sql",
            "org/apache/spark/sql/execution/QueryExecution.class",
            "analyzed",
            descriptor("", "org/apache/spark/sql/catalyst/plans/logical/LogicalPlan"),
        ),
        (
            "source.traced",
            "spark-catalyst",
            "org/apache/spark/sql/catalyst/plans/QueryPlan.class",
            "deterministic",
            "()Z",
        ),
        (
            "spark.executors",
            "spark-core",
            "org/apache/spark/SparkContext.class",
            "statusTracker",
            descriptor("", "org/apache/spark/SparkStatusTracker"),
        ),
        (
            "spark.executors",
            "spark-core",
            "org/apache/spark/SparkStatusTracker.class",
            "getExecutorInfos",
            "()[Lorg/apache/spark/SparkExecutorInfo;",
        ),
    ],
)
def test_the_jvm_has_the_method(module: str, jar: str, class_name: str, method: str, signature: str) -> None:
    content = in_jar(jar, class_name)
    for name in (method, signature):
        assert constant(name) in content, depends(module)


def test_a_jvm_can_be_started_without_pyspark_and_taken_over_by_it() -> None:
    source = inspect.getsource(launch_gateway)
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "_PYSPARK_DRIVER_CONN_INFO_PATH"):
        assert f'"{name}"' in source, depends("spark.jvm")
    server = in_jar("spark-core", "org/apache/spark/api/python/PythonGatewayServer$")
    assert constant("_PYSPARK_DRIVER_CONN_INFO_PATH") in server, depends("spark.launch")


@pytest.mark.parametrize("name", sorted(conf.REQUIRED_CONF | conf._DEFAULT_CONF))
def test_spark_knows_each_setting(name: str) -> None:
    """It ignores those that it does not know."""
    places = [
        ("spark-core", "org/apache/spark/internal/config/"),
        ("spark-core", "org/apache/spark/api/python/PythonWorkerFactory"),
        ("spark-catalyst", "org/apache/spark/sql/internal/SQLConf"),
        ("spark-catalyst", "org/apache/spark/sql/internal/StaticSQLConf"),
        ("spark-sql-api", "org/apache/spark/sql/internal/SqlApiConf"),
        ("spark-sql", "org/apache/spark/sql/execution/streaming"),
    ]
    known = any(constant(name) in in_jar(*place) for place in places)
    assert known, depends("spark.session")


@pytest.mark.parametrize(
    ("jar", "place", "words"),
    [
        (
            "spark-core",
            "org/apache/spark/api/python/PythonWorkerFactory",
            ("Error from python worker:", "PYTHONPATH was:"),
        ),
        ("spark-core", "org/apache/spark/scheduler/TaskSetManager", ("most recent failure: ",)),
        ("spark-common-utils", "error/error-conditions.json", ('"STREAM_FAILED"', "terminated with exception: ")),
    ],
)
def test_messages_have_the_words_by_which_a_reason_is_found(jar: str, place: str, words: tuple[str, ...]) -> None:
    assert all(word.encode() in in_jar(jar, place) for word in words), depends("spark.failures")
