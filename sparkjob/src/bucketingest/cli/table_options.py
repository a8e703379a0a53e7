"""Options that every command has that changes a table: Hudi's lock, and the settings of the storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

import typer

from bucketingest.hudi.lock.hudi_lock import Provider


def lock_provider(text: str) -> Provider:
    """The lock of this name. Raises typer's BadParameter."""
    for provider in get_args(Provider):
        if provider == text:
            return cast(Provider, provider)
    raise typer.BadParameter(f"--lock: must be one of {', '.join(get_args(Provider))}, is {text!r}")


def storage_options(texts: Sequence[str]) -> dict[str, str]:
    """Settings of a storage, each given as name=value. Raises typer's BadParameter."""
    options = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            shown = name if separator else "the value given"  # what lacks a name may be a secret
            raise typer.BadParameter(f"--storage-option: {shown}: must be of the form NAME=VALUE, as region=eu-west-1")
        options[name] = value
    return options
