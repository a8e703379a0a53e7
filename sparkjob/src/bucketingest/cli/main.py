"""The entry point: runs a command line, and turns every error into one line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

import typer

from bucketingest.cli.app import app, common_options
from bucketingest.cli.errors import MissingDependency
from bucketingest.cli.exit_code_of_error import exit_code
from bucketingest.cli.options import TERMINATION_LOG_VARIABLE
from bucketingest.cli.process.signals import StoppedEarly
from bucketingest.cli.process.termination_message import Termination, termination_path
from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ENDINGS, ExitCode
from bucketingest.redaction import redacted

# Base of every usage error. Typer bundles its own click and exports only this class of it.
_WrongUsage: Any = typer.BadParameter.__mro__[1]


def main() -> None:
    """Entry point of the `bucketingest` script."""
    sys.exit(call(sys.argv[1:]))


def call(arguments: list[str]) -> int:
    """Run a command line; returns its exit code. Errors are printed on stderr, one line each.

    In a container it also writes a termination message, if the environment or Kubernetes asks for one.
    """
    common_options.writes_termination = False
    code, message = _call(arguments)
    if not common_options.writes_termination:
        chosen = os.environ.get(TERMINATION_LOG_VARIABLE)
        path = termination_path(Path(chosen) if chosen else None)
        word = "Completed" if code is ExitCode.OK else None
        Termination(path, redacted, lambda: None).write(code, message or ENDINGS[code].meaning, word=word)
    return code


def _call(arguments: list[str]) -> tuple[ExitCode, str]:
    """Exit code, and the message about it."""
    try:
        ordered = _common_first(arguments)
        _add_others(ordered)
        result = app(ordered, prog_name="bucketingest", standalone_mode=False)
    except _WrongUsage as error:
        if message := error.format_message():  # without one the help has been shown instead
            _print_error(message)
            typer.echo("Try 'bucketingest --help', or '--help' after a command.", err=True)
        return ExitCode.BAD_INPUT, message
    except (KeyboardInterrupt, StoppedEarly, typer.Abort):
        result = ExitCode.INTERRUPTED  # in newer versions typer makes this of a KeyboardInterrupt by itself
    except BucketIngestError as error:
        if common_options.debug:
            _print_traceback(error)
        _print_error(str(error))
        return exit_code(error), str(error)
    except Exception as error:  # noqa: BLE001 - the one place where a defect is reported and gets its code
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11 made this of a Ctrl-C while a class was made
            typer.echo("interrupted", err=True)
            return ExitCode.INTERRUPTED, ""
        _print_traceback(error)
        code = exit_code(error)
        defect = ". This is a defect of bucketingest, please report it" if code is ExitCode.DEFECT else ""
        _print_error(message := f"{type(error).__name__}: {error}{defect}")
        return code, message
    if result == ExitCode.INTERRUPTED:
        typer.echo("interrupted", err=True)
    return (ExitCode(result) if isinstance(result, int) else ExitCode.OK), ""


def _add_others(ordered: list[str]) -> None:
    """Add commands of other packages, unless the command line starts with our own command: the search takes time."""
    own = {each.callback.__name__ for each in app.registered_commands if each.callback is not None}
    rest = ordered
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] == "--log-format" else 1 :]
    if not rest or rest[0] not in own:
        add_commands(app)


def _common_first(arguments: list[str]) -> list[str]:
    """The same with the options of `common` in front, so that they may also be typed after the command."""
    moved, kept = [], []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--debug" or argument.startswith("--log-format="):
            moved.append(argument)
        elif argument == "--log-format":
            moved.extend([argument, *(value for value in [next(rest, None)] if value is not None)])
        else:
            kept.append(argument)
    return moved + kept


def _print_error(message: str) -> None:
    """The first line after `error:`, and its details, such as reasons of a refusal, below."""
    typer.echo(f"error: {redacted(message)}", err=True)


def _print_traceback(error: Exception) -> None:
    typer.echo(redacted("".join(traceback.format_exception(error))), err=True, nl=False)


COMMANDS: Final = "bucketingest.commands"
"""Group of entry points, each a function with arguments as typer has them; its name is the command's."""


def add_commands(app: typer.Typer) -> None:
    """Add the commands of installed packages after our own, which win over equal names: the operator's are there where
    it is installed, and the job's image lacks them.
    """
    known = {each.name or each.callback.__name__ for each in app.registered_commands if each.callback is not None}
    for point in sorted(entry_points(group=COMMANDS), key=lambda point: point.name):
        if point.name not in known:
            known.add(point.name)
            app.command(point.name, rich_help_panel="On Kubernetes")(_load(point))


def _load(point: EntryPoint) -> Callable[..., Any]:
    try:
        command: Callable[..., Any] = point.load()
    except ImportError as error:
        return _missing(point.name, error)
    return command


def _missing(name: str, error: ImportError) -> Callable[[], None]:
    def command() -> None:
        raise MissingDependency(f"{name}: the Python package {error.name} is missing") from error

    command.__doc__ = f"Cannot be run here: the Python package {error.name} is missing."
    return command


if __name__ == "__main__":
    main()
