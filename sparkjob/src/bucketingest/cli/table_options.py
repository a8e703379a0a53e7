"""What several commands take: which table is meant (a path, a BucketIngest file, and of many tables a topic), Hudi's
lock, the settings of the storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, cast, get_args

import typer

from bucketingest.cli.errors import BadOption
from bucketingest.cli.options import UnknownFields
from bucketingest.hudi.lock.hudi_lock import Provider
from bucketingest.spec.fields.tables import PLACEHOLDER, TOPIC
from bucketingest.spec.many_tables import table_resource
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.reading.load import load_file
from bucketingest.storage import open_storage

_NAMED_MAX: Final = 10

TableUrl = Annotated[
    str,
    typer.Argument(
        help="Base path of a Hudi table: a directory, s3://, gs://, abfss://; or a BucketIngest file (.yaml).",
        show_default=False,
    ),
]
ResourceFile = Annotated[Path, typer.Argument(help="YAML file with one BucketIngest.", show_default=False)]
UnknownFieldsOption = Annotated[
    UnknownFields,
    typer.Option(envvar="BUCKETINGEST_UNKNOWN_FIELDS", help="Fields of the spec that this version does not know."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
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


def is_resource(table: str) -> bool:
    """Whether a command line names a file instead of a path."""
    return table.endswith((".yaml", ".yml"))


def url_of(table: str, topic: str | None) -> str:
    """The base path of the table that a command line names. Raises BadOption, SpecError, StorageError."""
    return _path(load_file(Path(table)).spec.table.path if is_resource(table) else table, topic)


def resource_of(resource: BucketIngest, topic: str | None) -> BucketIngest:
    """The resource of one table: of many that of the topic. Raises BadOption, SpecError, StorageError."""
    _path(resource.spec.table.path, topic)
    return resource if topic is None else table_resource(resource, topic)


def _path(path: str, topic: str | None) -> str:
    if topic is None and PLACEHOLDER in path:
        raise BadOption(f"{path} is the path of many tables: name one by --topic{_choice(path)}")
    if topic is not None and PLACEHOLDER not in path:
        raise BadOption(f"--topic: {path} is the path of one table: leave the option out")
    if topic is not None and not TOPIC.fullmatch(topic):
        raise BadOption(f"--topic: {topic!r} is no name of a topic: letters, digits, '.', '_' and '-'")
    return path if topic is None else path.replace(PLACEHOLDER, topic)


def _choice(path: str) -> str:
    """Topics whose tables there are, in words: by the names of folders, in one listing."""
    before, _, rest = path.partition(PLACEHOLDER)
    folder, _, start = before.rpartition("/")
    end = rest.partition("/")[0]
    names = [each.rpartition("/")[2] for each in open_storage(folder).list_level().directories]
    topics = [name.removeprefix(start).removesuffix(end) for name in names if name.startswith(start)]
    found = sorted({each for each in topics if TOPIC.fullmatch(each)})
    more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    return f"; in {folder} are {', '.join(found[:_NAMED_MAX])}{more}" if found else ""
