"""Tables that `run` must not write to are refused with the reason, before there is a Spark session."""

from concurrent.futures import Future
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.table.table import TableDefinition, create_table
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import StorageUnavailable, open_storage
from bucketingest.stream.errors import JvmFailed
from support.jobs.commands import Command
from support.tables.fixtures import unpack_fixture

PROPERTIES = ".hoodie/hoodie.properties"


@pytest.fixture(autouse=True)
def spark_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that got so far would start Spark in the JVM."""

    def fail(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("bucketingest.cli.run.check_java", lambda: None)
    monkeypatch.setattr("bucketingest.stream.spark.session.jvm_ahead", jvm_that_runs)
    monkeypatch.setattr("bucketingest.stream.spark.session.build_session", fail)


def jvm_that_runs(_: BucketIngest) -> Future[None]:
    """Instead of a real one."""
    started: Future[None] = Future()
    started.set_result(None)
    return started


@pytest.fixture
def table(resource_file: Path) -> Path:
    """The table that the resource describes, empty."""
    path = resource_file.parent / "orders"
    create_table(open_storage(str(path)), TableDefinition("orders", ("value",), (), "timestamp", buckets=4))
    return path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hoodie.table.metadata.partitions=files", "metadata table is on"),
        ("bucketingest.bucket.count=8", "bucketingest.bucket.count=8, the spec has 4"),
        ("hoodie.table.version=6", "upgrade it with Hudi's upgrade_table procedure"),
        ("hoodie.table.type=COPY_ON_WRITE", "hoodie.table.type=COPY_ON_WRITE, it must be MERGE_ON_READ"),
        ("hoodie.table.checksum=1", "hoodie.table.checksum=1, but database and table name give"),
        ("hoodie.table.recordkey.fields=id", "recordkey.fields=id, but the spec's record key: value"),
        ("hoodie.table.partition.fields=dt", "hoodie.table.partition.fields=dt"),
        ("hoodie.table.ordering.fields=ts", "but the spec's ordering field: timestamp"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    command: Command, resource_file: Path, table: Path, line: str, said: str
) -> None:
    with (table / PROPERTIES).open("a") as properties:
        properties.write(f"{line}\n")
    ended = command("run", resource_file)
    assert ended.code == ExitCode.TABLE_REFUSED
    first, *reasons = ended.err.splitlines()
    assert first == f"error: table {table} is refused:"
    assert any(said in reason for reason in reasons)
    assert all(reason.startswith("  - ") for reason in reasons)


def test_the_jvm_that_was_started_ahead_ends_with_a_refusal(
    command: Command, resource_file: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_jvm: list[bool] = []
    monkeypatch.setattr("bucketingest.stream.spark.jvm.stop_jvm", lambda: ended_jvm.append(True))
    with (table / PROPERTIES).open("a") as properties:
        properties.write("hoodie.table.version=6\n")
    assert command("run", resource_file).code == ExitCode.TABLE_REFUSED
    assert ended_jvm


def test_a_torn_properties_file_is_refused(command: Command, resource_file: Path, table: Path) -> None:
    (table / PROPERTIES).write_text("hoodie.table.name=orders\n")
    ended = command("run", resource_file)
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "has no hoodie.table.type: the file is torn; restore it" in ended.err


def test_a_table_of_hudis_in_version_6_is_refused_with_all_reasons(
    command: Command, resource_file: Path, tmp_path: Path
) -> None:
    old = unpack_fixture("java_v6_avro", tmp_path)
    resource_file.write_text(resource_file.read_text().replace(str(tmp_path / "orders"), str(old)))
    ended = command("run", resource_file)
    assert ended.code == ExitCode.TABLE_REFUSED
    assert "hoodie.table.version=6" in ended.err
    assert "record key" in ended.err


def test_a_location_that_cannot_be_is_bad_input(command: Command, resource_file: Path, tmp_path: Path) -> None:
    resource_file.write_text(resource_file.read_text().replace(str(tmp_path / "orders"), "hdfs://namenode/orders"))
    ended = command("run", resource_file)
    assert ended.code == ExitCode.BAD_INPUT
    assert "hdfs" in ended.err


def test_a_table_that_fits_gets_as_far_as_spark(command: Command, resource_file: Path, table: Path) -> None:
    ended = command("run", resource_file)
    assert "Spark was started" in ended.err


def test_a_metadata_table_that_is_to_be_dropped_gets_as_far_as_spark(
    command: Command, resource_file: Path, table: Path
) -> None:
    with (table / PROPERTIES).open("a") as properties:
        properties.write("hoodie.table.metadata.partitions=files\n")
    resource_file.write_text(resource_file.read_text() + "    metadataTable: drop\n")
    ended = command("run", resource_file)
    assert "Spark was started" in ended.err


KAFKA = """\
    kafka:
      bootstrapServers: kafka:9092
      topics: [orders]
      secretRef: {name: kafka-credentials}
  format:
    type: json
    schema: value STRING, timestamp TIMESTAMP
"""


@pytest.fixture
def kafka_file(resource_file: Path) -> Path:
    """A pipeline whose Kafka options are in a Secret."""
    resource_file.write_text(resource_file.read_text().replace("    rate:\n      rowsPerSecond: 10\n", KAFKA))
    return resource_file


def test_a_secret_of_the_source_that_is_not_there_is_told_before_anything_is_started(
    command: Command, kafka_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BUCKETINGEST_SOURCE_OPTIONS", raising=False)
    ended = command("run", kafka_file)
    assert ended.code == ExitCode.BAD_INPUT
    assert "spec.source.kafka.secretRef: names the Secret kafka-credentials" in ended.err


def test_values_of_the_sources_secret_are_in_no_message_of_the_run(
    command: Command, kafka_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "options"
    folder.mkdir()
    (folder / "kafka.client.id").write_text("who-we-really-are\n")
    monkeypatch.setenv("BUCKETINGEST_SOURCE_OPTIONS", str(folder))
    monkeypatch.setenv("BUCKETINGEST_TERMINATION_LOG", str(tmp_path / "message"))

    def fail(*_: object) -> None:
        raise StorageUnavailable("the broker does not know who-we-really-are")

    monkeypatch.setattr("bucketingest.stream.spark.session.build_session", fail)
    ended = command("run", "--debug", kafka_file)
    assert ended.code == ExitCode.STORAGE_UNAVAILABLE
    assert "the broker does not know ***" in ended.err
    assert "the broker does not know ***" in (tmp_path / "message").read_text()
    assert "who-we-really-are" not in ended.err + ended.out + (tmp_path / "message").read_text()


class SaidByTheJvm(Py4JJavaError):  # type: ignore[misc]
    """Its text is asked of the JVM, each time."""

    gone = False

    def __init__(self) -> None:
        Exception.__init__(self)

    def __str__(self) -> str:
        if SaidByTheJvm.gone:
            raise ConnectionRefusedError("the JVM is gone")
        return "An error occurred while calling None.x\n: org.apache.spark.SparkException: 450 MiB at least\n\tat x"


def test_why_spark_does_not_start_is_told_although_its_jvm_has_ended_by_then(
    command: Command, resource_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise SaidByTheJvm

    monkeypatch.setattr(SaidByTheJvm, "gone", False)
    monkeypatch.setattr("bucketingest.stream.spark.session.jvm_ahead", jvm_that_runs)
    monkeypatch.setattr("bucketingest.stream.spark.session.build_session", fail)
    monkeypatch.setattr("bucketingest.stream.spark.jvm.stop_jvm", lambda: setattr(SaidByTheJvm, "gone", True))
    ended = command("run", resource_file)
    assert SaidByTheJvm.gone
    assert ended.err.splitlines()[1:] == [
        "error: Spark did not start: org.apache.spark.SparkException: 450 MiB at least"
    ]
    assert "Spark's JVM runs" in ended.err, "it says how far the start came"
    assert ended.code == ExitCode.QUERY_FAILED


def test_a_field_of_a_newer_operator_is_ignored_only_on_its_wish(
    command: Command, resource_file: Path, table: Path
) -> None:
    resource_file.write_text(resource_file.read_text().replace("  table:", "  later: {a: 1}\n  table:"))
    (table / PROPERTIES).write_text((table / PROPERTIES).read_text() + "bucketingest.bucket.count=8\n")
    refused = command("run", resource_file)
    assert refused.code == ExitCode.BAD_INPUT
    assert "spec.later: is not a known field" in refused.err
    ignored = command("--log-format", "json", "run", resource_file, "--unknown-fields", "ignore")
    assert ignored.code == ExitCode.TABLE_REFUSED
    assert '"fields": ["spec.later"]' in ignored.err


def test_a_jvm_that_does_not_start_ends_the_run_and_leaves_no_process(
    command: Command, resource_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def jvm_that_fails(_: BucketIngest) -> Future[None]:
        started: Future[None] = Future()
        started.set_exception(JvmFailed("Spark's JVM did not start: no memory"))
        return started

    ended_jvm: list[bool] = []
    monkeypatch.setattr("bucketingest.stream.spark.session.jvm_ahead", jvm_that_fails)
    monkeypatch.setattr("bucketingest.stream.spark.jvm.stop_jvm", lambda: ended_jvm.append(True))
    ended = command("run", resource_file)
    assert ended.err == "error: Spark's JVM did not start: no memory\n"
    assert ended.code == JvmFailed.exit_code
    assert ended_jvm
