"""Commands of other packages: the operator's are there where it is installed, and the job's image lacks them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer

from bucketingest.cli.errors import MissingDependency

GROUP: Final = "bucketingest.commands"
"""Group of entry points, each a function with arguments as typer has them; its name is the command's."""


def add_commands(app: typer.Typer) -> None:
    """Add the commands of installed packages after our own, which win over equal names."""
    known = {each.name or each.callback.__name__ for each in app.registered_commands if each.callback is not None}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
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
