"""`bucketingest sync`: brings the catalogs of a BucketIngest up to date by hand. It needs neither Spark nor Java."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import typer

from bucketingest.catalog.errors import CatalogError
from bucketingest.catalog.sync import Changes, Target
from bucketingest.catalog.table_state import TableState, hadoop_location
from bucketingest.catalog.targets import targets
from bucketingest.cli.errors import BadOption
from bucketingest.cli.options import UnknownFields, load_known
from bucketingest.cli.table_options import resource_of
from bucketingest.exit_codes import ExitCode
from bucketingest.storage import Storage, open_storage

_EMPTY: Final = "the table has no commit yet: a catalog is given a table whose columns are known"


def sync_file(
    file: Path,
    topic: str | None,
    unknown_fields: UnknownFields,
    *,
    drop: bool,
    check: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Compare every catalog with the table, and change what is missing, or take the table off; report it. `topic`: of
    many tables the one that is meant.

    One catalog that fails does not keep the others back. Raises its CatalogError then, SpecError, BadOption without
    catalogs, and what reading a table raises; with `check` and `dry_run` Exit of code FINDINGS if something differs.
    """
    if drop and check:
        raise BadOption("--check and --drop do not go together: a table that is taken off is not compared")
    resource = resource_of(load_known(file, unknown_fields), topic)
    chosen = targets(resource)
    if not chosen:
        raise BadOption(f"{file}: spec.catalogs names no catalog")
    storage = open_storage(resource.spec.table.path)
    work = _drop(storage) if drop else _sync(storage, check=check)
    done: dict[str, Changes | CatalogError] = {}
    for target in chosen:
        if work is None:
            break
        try:
            done[target.label] = work(target, dry_run)
        except CatalogError as error:
            done[target.label] = error
    _report(done, dry_run=dry_run, as_json=as_json)
    for result in done.values():
        if isinstance(result, CatalogError):
            raise result
    if check and dry_run and any(result != Changes() for result in done.values()):
        raise typer.Exit(ExitCode.FINDINGS)


def _drop(storage: Storage) -> Callable[[Target, bool], Changes]:
    """The table itself may be gone already."""
    return lambda target, dry_run: target.drop(hadoop_location(storage.url), dry_run=dry_run)


def _sync(storage: Storage, *, check: bool) -> Callable[[Target, bool], Changes] | None:
    state = TableState.read(storage)
    return None if state is None else lambda target, dry_run: target.sync(storage, state, dry_run=dry_run, check=check)


def _report(done: dict[str, Changes | CatalogError], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        results = {
            label: {"error": str(result)} if isinstance(result, CatalogError) else vars(result)
            for label, result in done.items()
        }
        record = {"dry_run": dry_run, "catalogs": results}
        typer.echo(json.dumps(record if done else {**record, "not_done": _EMPTY}, indent=2, ensure_ascii=False))
        return
    if not done:
        typer.echo(f"not done: {_EMPTY}")
    for label, result in done.items():
        if isinstance(result, Changes):
            typer.echo(f"{label}: {'would be: ' if dry_run else ''}{result}")
        else:
            typer.echo(f"{label}: failed")
