"""Commands of other packages appear where they are installed."""

from importlib.metadata import EntryPoint

import pytest
import typer

from bucketingest.cli import app as commands
from bucketingest.cli import main
from bucketingest.exit_codes import ExitCode
from support.jobs.commands import Command


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The command line without what earlier tests have added to it."""
    own = [each for each in commands.app.registered_commands if each.callback.__module__ == "bucketingest.cli.app"]
    monkeypatch.setattr(commands.app, "registered_commands", own)
    return commands.app


def installed(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    found = [EntryPoint(name, value, main.COMMANDS) for name, value in points.items()]
    monkeypatch.setattr(main, "entry_points", lambda group: found if group == main.COMMANDS else [])


def hello(name: str) -> None:
    """Say hello."""
    typer.echo(f"hello {name}")


def test_a_command_of_another_package_is_shown_and_run(
    app: typer.Typer, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, hello="another.package:hello")
    monkeypatch.setattr(EntryPoint, "load", lambda _: hello)
    assert "Say hello." in command("--help").out
    assert command("--log-format", "json", "hello", "run").out == "hello run\n"


def test_a_command_whose_packages_are_missing_says_so_when_it_is_run(
    app: typer.Typer, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, far="no_such_package.cli:far")
    assert "no_such_package is missing" in " ".join(command("--help").out.split())
    ended = command("far")
    assert ended.code == ExitCode.MISSING_DEPENDENCY
    assert ended.err == "error: far: the Python package no_such_package is missing\n"


def test_no_package_can_take_the_name_of_our_commands(
    app: typer.Typer, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, validate="no_such_package.cli:validate")
    main.add_commands(app)
    assert "valid" not in command("validate", "nowhere.yaml").out
    assert "no such file" in command("validate", "nowhere.yaml").err


def test_our_own_command_does_not_look_for_others(
    app: typer.Typer, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: str) -> list[EntryPoint]:
        raise AssertionError("it looked for other packages' commands")

    monkeypatch.setattr(main, "entry_points", fail)
    assert command("--debug", "validate", "nowhere.yaml").code == ExitCode.BAD_INPUT


def test_without_other_packages_there_are_only_our_commands(
    app: typer.Typer, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch)
    assert "No such command 'diagnose'" in command("diagnose", "orders").err
