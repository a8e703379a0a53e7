"""What a user reads when a file is wrong, or something that `run` needs is missing. No JVM is started."""

import stat
from pathlib import Path

import pytest

from bucketingest.cli.process.java import java_version
from bucketingest.exit_codes import ExitCode
from support.jobs.commands import Command
from support.registry.http_registry import http_registry


def test_a_valid_file_is_summed_up(command: Command, resource_file: Path) -> None:
    ended = command("validate", resource_file)
    assert ended.code == ExitCode.OK
    assert ended.out == f"{resource_file}: valid: pipeline orders, table {resource_file.parent / 'orders'}, 4 buckets\n"


def test_a_promise_to_readers_of_base_files_is_told_with_what_it_costs(command: Command, resource_file: Path) -> None:
    resource_file.write_text(resource_file.read_text() + "  slo: {readOptimizedFreshness: 5m}\n")
    ended = command("validate", resource_file)
    assert (
        "base files at most 5m behind: the job writes the base file of each file group with new rows again every 3m45s"
        in ended.out
    )


def test_a_short_commit_interval_is_told_with_what_it_costs(command: Command, resource_file: Path) -> None:
    text = resource_file.read_text() + "  commit: {interval: 200ms, trigger: 100ms}\n"
    resource_file.write_text(text)
    told = "a commit every 200ms: up to 432,000 a day, each with about 35 requests to the storage (15,120,000)"
    timeline = "commits stay on the timeline for 24h, which is 432,000 of them, and each commit lists them all"
    ended = command("validate", resource_file)
    assert told in ended.out
    assert timeline in ended.out
    resource_file.write_text(text + "  services: {clean: {versions: 2}, archive: {retain: 1m}}\n")
    ended = command("validate", resource_file)
    assert told in ended.out
    assert "timeline" not in ended.out


def test_a_file_with_a_format_is_told_how_its_messages_are_decoded(command: Command, resource_file: Path) -> None:
    text = resource_file.read_text()
    source = text[text.index("  source:") : text.index("  table:")]
    kafka = """  source:
    kafka: {bootstrapServers: "kafka:9092", topics: [orders]}
  format: {type: json, schema: "value BIGINT, timestamp TIMESTAMP"}
"""
    resource_file.write_text(text.replace(source, kafka))
    ended = command("validate", resource_file)
    assert ended.code == ExitCode.OK, ended.err
    assert ended.out.endswith(", reading Kafka in the tasks, decoding on Arrow: JSON, all columns as they are\n")


def test_a_registry_is_asked_and_what_it_says_is_told(command: Command, resource_file: Path) -> None:
    text = resource_file.read_text()
    source = text[text.index("  source:") : text.index("  table:")]

    def validate(url: str, more: str = "") -> tuple[int, str]:
        kafka = f"""  source:
    kafka: {{bootstrapServers: "kafka:9092", topics: [orders]}}
  format: {{type: avro, registry: {{url: "{url}"{more}}}}}
"""
        resource_file.write_text(text.replace(source, kafka))
        ended = command("validate", resource_file)
        return ended.code, ended.out + ended.err

    with http_registry() as registry:
        code, said = validate(registry.url)
        assert (code, "has no subject orders-value" in said) == (ExitCode.SOURCE_UNAVAILABLE, True)
        time = {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}}
        fields = [{"name": "value", "type": "long"}, time]
        number = registry.register("orders-value", {"type": "record", "name": "R", "fields": fields})
        code, said = validate(registry.url)
        assert (code, "for it, all columns as they are; the registry answers\n" in said) == (0, True)
        assert f'"subject": "orders-value", "id": {number}' in said
        fields = [{"name": "value", "type": "X"}]
        registry.register("orders-value", {"type": "record", "name": "R", "fields": fields})
        code, said = validate(registry.url)
        refused = "subject orders-value has the type X, which is not defined, in field value: it cannot be a column"
        assert (code, refused in said) == (0, True), "the version before it is taken"
        code, said = validate(registry.url, ", secretRef: {name: access}")
        assert (code, "the registry is not asked: names the Secret access" in said) == (0, True)
    code, said = validate(registry.url)
    assert (code, "does not answer" in said) == (ExitCode.SOURCE_UNAVAILABLE, True)


def test_every_problem_of_every_file_is_told_with_its_line(command: Command, resource_file: Path) -> None:
    wrong = resource_file.with_name("wrong.yaml")
    text = resource_file.read_text().replace("buckets: 4", "buckets: 0").replace("recordKey: [value]", "recordkey: [v]")
    wrong.write_text(text)
    ended = command("validate", wrong, resource_file)
    assert ended.code == ExitCode.BAD_INPUT
    lines = ended.err.splitlines()
    assert all(line.startswith(f"error: {wrong}:") for line in lines)
    assert any("spec.table.index.buckets: is 0; allowed: an integer" in line for line in lines)
    assert any("recordkey" in line for line in lines)
    assert f"{resource_file}: valid" in ended.out


@pytest.mark.parametrize("name", ["run", "validate"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("rowsPerSecond: 10", "rowsPerSecond: ten"), "spec.source.rate.rowsPerSecond"),
        (("    rate:", "    rat:"), "spec.source.rat"),
        (("kind: BucketIngest", "kind: Deployment"), "kind"),
        (("spec:", "spec: ["), "YAML"),
    ],
)
def test_a_wrong_file_is_refused_alike(
    command: Command, resource_file: Path, name: str, change: tuple[str, str], said: str
) -> None:
    resource_file.write_text(resource_file.read_text().replace(*change, 1))
    ended = command(name, resource_file)
    assert ended.code == ExitCode.BAD_INPUT
    assert ended.err.startswith(f"error: {resource_file}")
    assert said in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("name", ["run", "validate"])
def test_a_missing_file_is_named(command: Command, tmp_path: Path, name: str) -> None:
    ended = command(name, tmp_path / "none.yaml")
    assert ended.code == ExitCode.BAD_INPUT
    assert ended.err == f"error: {tmp_path}/none.yaml: there is no such file; check the path\n"


def test_a_suspended_pipeline_is_not_run(command: Command, resource_file: Path) -> None:
    resource_file.write_text(resource_file.read_text().replace("spec:", "spec:\n  suspend: true", 1))
    ended = command("run", resource_file)
    assert ended.code == ExitCode.OK
    assert "spec.suspend is true" in ended.err
    assert not (resource_file.parent / "orders").exists()


@pytest.mark.parametrize("name", ["run", "demo"])
def test_without_java_a_package_to_install_is_named(
    command: Command, resource_file: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(resource_file.parent))
    ended = command(*(["run", resource_file] if name == "run" else ["demo"]))
    assert ended.code == ExitCode.MISSING_DEPENDENCY
    assert ended.err == (
        "error: Java 17 or newer is missing: Spark runs on it. "
        "On Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless\n"
    )


@pytest.mark.parametrize(
    ("version", "said"),
    [('openjdk version "11.0.2" 2019-01-15', "is Java 11, Spark needs 17 or newer"), ("hello", "shows no version")],
)
def test_a_java_that_will_not_do_is_named(
    command: Command, resource_file: Path, monkeypatch: pytest.MonkeyPatch, version: str, said: str
) -> None:
    java = resource_file.parent / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(resource_file.parent))
    ended = command("run", resource_file)
    assert ended.code == ExitCode.MISSING_DEPENDENCY
    assert f"{java} " in ended.err
    assert said in ended.err
    assert "sudo apt-get install" in ended.err


def test_a_java_home_without_java_is_named(
    command: Command, resource_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    ended = command("run", resource_file)
    assert ended.code == ExitCode.MISSING_DEPENDENCY
    assert "JAVA_HOME is /nowhere, but there is no bin/java in it" in ended.err


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_362"', 8), ('version "25"', 25), ("", None)],
)
def test_the_version_in_what_java_prints(text: str, version: int | None) -> None:
    assert java_version(text) == version


def test_an_earlier_demo_is_not_overwritten(command: Command, tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    ended = command("demo", "--directory", tmp_path)
    assert ended.code == ExitCode.BAD_INPUT
    assert f"{tmp_path}/table is there already" in ended.err
