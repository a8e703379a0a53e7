"""Options of every command that changes a table: which one, Hudi's lock, and the settings of the storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, cast, get_args

import typer

from bucketingest.hudi.lock.hudi_lock import Provider

TableUrl = Annotated[
    str,
    typer.Argument(
        help="Base path of a Hudi table: a directory, s3://, gs://, abfss://; or a BucketIngest file (.yaml).",
        show_default=False,
    ),
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", help="With {topic} in the path, or a file with many tables: whose.", metavar="TOPIC"),
]
LockOption = Annotated[
    str, typer.Option(help="Hudi's lock to take: auto, storage, fileSystem or none.", metavar="PROVIDER")
]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        help="Setting of the storage, as region=eu-west-1; may be repeated. Put secrets into the environment.",
        metavar="NAME=VALUE",
    ),
]


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
