"""`bucketingest services`: all that a job would do for its table between micro-batches, once, while no job runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import typer

from bucketingest.catalog.errors import CatalogUnavailable
from bucketingest.catalog.keeper import CatalogKeeper
from bucketingest.cli.options import UnknownFields, load_known
from bucketingest.cli.process.signals import StoppedEarly, StopSignals
from bucketingest.cli.services.held_table import leased
from bucketingest.cli.table_options import resource_of
from bucketingest.hudi.table.table import load_table
from bucketingest.services.clustering.holder import ClusteringHolder
from bucketingest.services.clustering.inline import InlineClustering
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.inline import InlineServices
from bucketingest.services.state import ServicesState
from bucketingest.services.worker import Tidy
from bucketingest.spec.job_report import CatalogReport
from bucketingest.storage import Storage, open_storage
from bucketingest.stream.pipeline import Pipeline
from bucketingest.write.recovery.command import refuse_unsupported

_POLL_SECONDS: Final = 0.2


def serve_table(file: Path, topic: str | None, unknown_fields: UnknownFields, *, as_json: bool) -> None:
    """Do what is due of the table services that the resource asks for, by its limits; report it. `topic`: of many
    tables the one that is meant.

    Raises SpecError, BadOption, TableLeased if a job holds the table, TableNotFound before its first commit,
    StoppedEarly after a signal, what the first failed step raised, CatalogUnavailable if a clean waits for a catalog,
    and what reading and writing a table raises.
    """
    resource = resource_of(load_known(file, unknown_fields), topic)
    pipeline = Pipeline.of(resource)
    late: dict[str, str | None] = {}
    state = _served(pipeline, late) if resource.spec.services.run else None
    _report(pipeline.table_url, state, as_json=as_json)
    if state is not None and state.last_error is not None:
        raise state.last_error
    if problems := [problem for problem in late.values() if problem is not None]:
        raise CatalogUnavailable(f"clean and archive wait until this catalog is up to date: {'; '.join(problems)}")


def _served(pipeline: Pipeline, late: dict[str, str | None]) -> ServicesState:
    """`late`: is given, by the label of a catalog, why its last sync failed."""
    storage = open_storage(pipeline.table_url, pipeline.storage_options)
    refuse_unsupported(load_table(storage))
    states = [ServicesState()]
    signals = StopSignals(lambda _: None)
    with signals.installed(), signals.put_off(), leased(storage, pipeline.lock) as (table, lease_id):
        clustering = pipeline.clustering
        holder = ClusteringHolder(storage, table.lock, table.check)
        services = InlineServices(
            storage,
            CompactionHolder(storage, table.lock, table.check),
            pipeline.compaction,
            tidy=Tidy(storage, pipeline.retention, pipeline.archive, pipeline.lock, lease_id),
            policy=pipeline.services,
            clustering=None if clustering is None else InlineClustering(storage, holder, clustering),
            lets_clean=_syncing(pipeline, storage, late),
            report=states.append,
        )
        try:
            while not services.has_finished:
                if signals.first is not None:
                    raise StoppedEarly
                services.finish()
                if services.is_due():
                    services.step()
                else:
                    time.sleep(_POLL_SECONDS)
        finally:
            services.stop()
    return states[-1]


def _syncing(pipeline: Pipeline, storage: Storage, late: dict[str, str | None]) -> Callable[[float], bool]:
    """No job keeps the catalogs up to date meanwhile: those that name files are synced before a clean."""

    def note(state: CatalogReport) -> None:
        late[state.catalog] = state.problem

    keepers = [CatalogKeeper(storage, each, note, object) for each in pipeline.catalogs if each.names_files]

    def lets_clean(superseded_at: float) -> bool:
        for keeper in keepers:
            if not keeper.lets_clean(superseded_at):
                keeper.step()
        return all(keeper.lets_clean(superseded_at) for keeper in keepers)

    return lets_clean


def _report(url: str, state: ServicesState | None, *, as_json: bool) -> None:
    done = state or ServicesState()
    why = "services.mode is off" if state is None else state.why if state.home is None else None
    if as_json:
        record = {
            "table": url,
            "compactions": done.compactions,
            "clusterings": done.clusterings,
            "cleaned_files": done.cleaned_files,
            "archived_instants": done.archived_instants,
            "not_done": why,
        }
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
        return
    typer.echo(
        f"{done.compactions} compactions, {done.clusterings} clusterings, {done.cleaned_files} files "
        f"deleted, {done.archived_instants} instants archived"
    )
    if why is not None:
        typer.echo(f"not done: {why}")
