"""The command line itself: help, version, usage errors, and how every error is reported."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bucketingest.cli.validate
from bucketingest.exit_codes import ENDINGS, ExitCode
from bucketingest.storage import StorageUnavailable
from support.jobs.commands import Command


def test_help_names_every_command_and_every_exit_code(command: Command) -> None:
    ended = command("--help")
    assert ended.code == ExitCode.OK
    for name in ("run", "validate", "inspect", "demo"):
        assert name in ended.out
    assert set(ENDINGS) == set(ExitCode)
    for code in ExitCode:
        assert re.search(rf"^\s*{code.value}: ", ended.out, re.MULTILINE), code


def test_no_command_shows_the_help(command: Command) -> None:
    ended = command()
    assert ended.code == ExitCode.BAD_INPUT
    assert "Usage" in ended.out + ended.err


def test_the_version_is_shown(command: Command) -> None:
    assert command("--version").out.startswith("bucketingest ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ingest"], "No such command 'ingest'"),
        (["run"], "Missing argument 'file'"),
        (["run", "a.yaml", "--twice"], "No such option"),
        (["inspect", "x", "--instants", "0"], "greater than or equal to 1"),
        (["inspect", "x", "--pending-limit", "10 minutes"], "'10 minutes' is not a duration"),
        (["demo", "--kafka"], "--kafka needs a broker"),
    ],
)
def test_a_usage_error_is_one_line_and_points_to_the_help(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    ended = command(*arguments)
    assert ended.code == ExitCode.BAD_INPUT
    assert ended.err.startswith("error: ")
    assert said in ended.err
    assert "--help" in ended.err
    assert "Traceback" not in ended.err


def _fail(*_: object) -> None:
    raise StorageUnavailable("s3://lake/orders does not answer; try again")


def test_an_error_is_one_line_without_a_traceback(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucketingest.cli.validate, "validate_files", _fail)
    ended = command("validate", "x.yaml")
    assert ended.code == ExitCode.STORAGE_UNAVAILABLE
    assert ended.err == "error: s3://lake/orders does not answer; try again\n"


@pytest.mark.parametrize("arguments", [["--debug", "validate", "x.yaml"], ["validate", "x.yaml", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_is_typed(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(bucketingest.cli.validate, "validate_files", _fail)
    ended = command(*arguments)
    assert ended.code == ExitCode.STORAGE_UNAVAILABLE
    assert "Traceback" in ended.err
    assert ended.err.endswith("error: s3://lake/orders does not answer; try again\n")


def test_a_defect_shows_its_traceback_and_has_a_code_of_its_own(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucketingest.cli.validate, "validate_files", lambda *_: 1 // 0)
    ended = command("validate", "x.yaml")
    assert ended.code == ExitCode.DEFECT
    assert "Traceback" in ended.err
    assert "error: ZeroDivisionError" in ended.err


def test_ctrl_c_before_anything_runs_is_reported_without_a_traceback(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bucketingest.cli.validate, "validate_files", interrupted)
    ended = command("validate", "x.yaml")
    assert (ended.code, ended.err) == (ExitCode.INTERRUPTED, "interrupted\n")


def test_ctrl_c_while_a_class_is_made_is_no_defect(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 makes a RuntimeError of what is raised in `__set_name__`, as in an import."""

    def interrupted(*_: object) -> None:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr(bucketingest.cli.validate, "validate_files", interrupted)
    ended = command("validate", "x.yaml")
    assert (ended.code, ended.err) == (ExitCode.INTERRUPTED, "interrupted\n")


@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "{table}"]])
def test_only_run_and_demo_import_pyspark(arguments: list[str], tmp_path: Path) -> None:
    script = (
        "import sys; from bucketingest.cli.main import call; call(sys.argv[1:]); "
        "sys.exit(any(name.split('.')[0] in ('pyspark', 'py4j') for name in sys.modules))"
    )
    typed = [argument.format(table=tmp_path) for argument in arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script, *typed], capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
