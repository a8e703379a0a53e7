"""What `validate --connect` says when something that a run needs is not there. No JVM is started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bucketingest.cli.connect.checking_spark import CheckingSpark
from bucketingest.cli.errors import MissingDependency
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.table.table import TableDefinition, create_table
from bucketingest.spec.job_report import TerminationReport
from bucketingest.storage import open_storage
from support.jobs.commands import Command
from support.registry.http_registry import http_registry
from support.tables.other_writers import upgrade_table


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise MissingDependency("Java 17 or newer is missing")

    monkeypatch.setattr(CheckingSpark, "session_for", missing)


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the termination message is."""
    file = tmp_path / "message"
    monkeypatch.setenv("BUCKETINGEST_TERMINATION_LOG", str(file))
    return file


def with_kafka(file: Path, more: str = "", rest: str = "") -> None:
    text = file.read_text()
    source = text[text.index("  source:") : text.index("  table:")]
    kafka = f"""  source:
    kafka: {{bootstrapServers: "kafka:9092", topics: [orders]{more}}}
{rest}"""
    file.write_text(text.replace(source, kafka))


def tear(table: Path) -> None:
    (table / ".hoodie").mkdir(parents=True)
    (table / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=orders\n")


def test_without_the_option_nothing_is_contacted(command: Command, resource_file: Path) -> None:
    assert command("validate", resource_file).code == ExitCode.OK


def test_each_check_is_told_and_one_that_fails_does_not_hide_the_others(
    command: Command, resource_file: Path, message: Path
) -> None:
    tear(resource_file.with_name("orders"))
    ended = command("validate", "--connect", resource_file)
    assert f"{resource_file}: valid: pipeline orders" in ended.out
    assert re.search(r"error: .*: storage: .* has no hoodie\.table\.type: the file is torn", ended.err)
    assert f"error: {resource_file}: spark: Java 17 or newer is missing" in ended.err
    assert f"{resource_file}: dead letters: " in ended.out
    report = TerminationReport.model_validate_json(message.read_bytes())
    assert report.error_class == "PreflightFailed"
    assert report.exit_code == ended.code != ExitCode.OK
    assert report.message.startswith("storage: ")
    assert report.message.endswith("; spark: Java 17 or newer is missing")


def test_a_table_that_a_newer_hudi_has_upgraded_is_a_failure_that_says_the_way_back(
    command: Command, resource_file: Path, message: Path
) -> None:
    storage = open_storage(str(resource_file.with_name("orders")))
    create_table(storage, TableDefinition("orders", ("value",), (), "timestamp", buckets=4))
    upgrade_table(storage)
    ended = command("validate", "--connect", resource_file)
    assert f"error: {resource_file}: storage: " in ended.err
    report = TerminationReport.model_validate_json(message.read_bytes())
    assert "CALL downgrade_table(table => 'orders', to_version => 'NINE')" in report.message


def test_a_table_that_is_not_there_yet_is_no_failure_and_is_not_made(
    command: Command, resource_file: Path, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    ended = command("validate", "--connect", resource_file)
    assert f"{resource_file}: storage: {tmp_path / 'orders'} can be read; there is no table yet" in ended.out
    assert ended.code == ExitCode.MISSING_DEPENDENCY
    assert sorted(tmp_path.rglob("*")) == before


def test_a_secret_that_is_not_mounted_ends_the_checks(command: Command, resource_file: Path, message: Path) -> None:
    with_kafka(resource_file, ", secretRef: {name: access}", '  format: {type: json, schema: "value BIGINT"}\n')
    ended = command("validate", "--connect", resource_file)
    assert ended.code == ExitCode.BAD_INPUT
    assert "access: " in ended.err
    assert "spark" not in ended.err
    report = TerminationReport.model_validate_json(message.read_bytes())
    assert "spec.source.kafka.secretRef" in report.message


def test_what_a_secret_holds_is_in_no_output(
    command: Command, resource_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "kafka.ssl.keystore.location").write_text("hunter2hunter2")
    monkeypatch.setenv("BUCKETINGEST_SOURCE_OPTIONS", str(folder))

    def quotes(*_: object) -> None:
        raise MissingDependency("hunter2hunter2 is no keystore")

    monkeypatch.setattr(CheckingSpark, "session_for", quotes)
    with_kafka(resource_file, ", secretRef: {name: access}", '  format: {type: json, schema: "value BIGINT"}\n')
    ended = command("validate", "--connect", resource_file)
    assert "access: Secrets can be read" in ended.out
    assert "*** is no keystore" in ended.err
    assert "hunter2" not in ended.err + ended.out


def test_a_registry_without_the_subject_fails_and_one_with_it_passes(command: Command, resource_file: Path) -> None:
    with http_registry() as registry:
        with_kafka(resource_file, rest=f'  format: {{type: avro, registry: {{url: "{registry.url}"}}}}\n')
        assert "registry: the schema registry" in command("validate", "--connect", resource_file).err
        fields = [{"name": "value", "type": "long"}]
        registry.register("orders-value", {"type": "record", "name": "R", "fields": fields})
        assert f"registry: {registry.url} answers" in command("validate", "--connect", resource_file).out


def test_a_wrong_spec_is_the_failure_and_fields_of_a_newer_version_are_none_if_asked(
    command: Command, resource_file: Path, message: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource_file.write_text(resource_file.read_text() + "  ofTomorrow: 1\n")
    ended = command("validate", "--connect", resource_file)
    assert ended.code == ExitCode.BAD_INPUT
    report = TerminationReport.model_validate_json(message.read_bytes())
    assert (report.error_class, "ofTomorrow" in report.message) == ("PreflightFailed", True)
    monkeypatch.setenv("BUCKETINGEST_UNKNOWN_FIELDS", "ignore")
    assert command("validate", resource_file).code == ExitCode.OK
