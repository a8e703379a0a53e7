"""What must hold of how a pipeline runs: its times, its paths, its catalogs and services, the Spark application."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from bucketingest.spec.fields.options import SPARK_SETTINGS
from bucketingest.spec.quantity import format_duration
from bucketingest.spec.reading.view import View
from bucketingest.spec.rules.finding import Finding, Rules, exactly_one, mappings
from bucketingest.spec.rules.source import HIDDEN

CATALOGS: Final = ("hive", "glue", "iceberg")


def _services(view: View) -> Iterator[Finding]:
    chosen = view.text("table.index.type")
    if view.value("services.clustering.enabled") is True and chosen not in (None, "state"):
        wrong = f"is for table.index.type state only, and the type is {chosen}"
        yield (("services", "clustering", "enabled"), wrong, "")
    if None not in (view.value("services.clean.retain"), view.value("services.clean.versions")):
        yield (("services", "clean"), "has retain and versions", "one of them")


def _catalogs(view: View) -> Iterator[Finding]:
    catalogs = list(mappings(view, "catalogs"))
    for position, catalog in catalogs:
        yield from exactly_one(catalog, ("catalogs", position), CATALOGS)
        hive = _mapping(catalog.get("hive"))
        if hive.get("kerberos") is not None and _mapping(hive.get("tls")).get("login") is not None:
            yield ("catalogs", position, "hive"), "has kerberos and tls.login", "one of them"
        yield from _same_name([each for _, each in catalogs], position, _mapping(catalog.get("iceberg")))


def _same_name(catalogs: Sequence[Mapping[str, Any]], position: int, made: Mapping[str, Any]) -> Iterator[Finding]:
    """A metastore and Glue have one table of a name: the Hudi table, or the Iceberg table. That of another account's
    Glue may be another's: the catalog itself refuses it then.
    """
    for other in catalogs:
        one = _mapping(other.get(str(made.get("type"))))
        here = all(made.get(key) == one.get(key) for key in ("database", "table"))
        if one and here and made.get("uri") in (None, one.get("uri")) and one.get("catalogId") is None:
            yield (
                ("catalogs", position, "iceberg", "table"),
                f"is {made.get('table', 'absent')}, as that of {made['type']} in the same database",
                "another name than the one that engines of Hudi tables find",
            )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _audit(view: View) -> Iterator[Finding]:
    if "password=" in (view.text("audit.against") or ""):
        yield (("audit", "against"), "has a password, which everybody reads here", "a password in passwordFrom")


def _promise(view: View) -> Iterator[Finding]:
    if view.value("slo.readOptimizedFreshness") is not None and view.value("services.mode") in ("off", False):
        yield (("slo", "readOptimizedFreshness"), "is not allowed with services.mode off", "another services.mode")


def _executors(view: View) -> Iterator[Finding]:
    least, most = view.value("spark.executor.instances"), view.value("spark.executor.maxInstances")
    if type(least) is not int or type(most) is not int:
        return
    where = ("spark", "executor", "maxInstances")
    if least < 1 or most < least:
        yield (where, f"is {most}, and instances is {least}", "instances of at least 1, and no fewer than these")
    if view.value("source.kafka") is None:
        yield (where, "is for source.kafka only: of other sources nobody knows how much input waits", "")


def _refused_names(view: View) -> Iterator[Finding]:
    instead = {name.lower(): advice for name, advice in SPARK_SETTINGS.items()}
    for name in view.mapping("spark.conf") or ():
        if name.lower() in instead:
            yield (("spark", "conf", name), f"cannot be set here: {instead[name.lower()]}", "")
        elif not name.startswith("spark."):
            yield (("spark", "conf", name), "is not a Spark setting", "names that start with spark.")


def _plain_paths(view: View) -> Iterator[Finding]:
    for path in ("source.files.path", "table.path", "errors.deadLetterPath", "checkpoint.path"):
        if {".", ".."} & set((view.text(path) or "").split("/")):
            yield (tuple(path.split(".")), "has . or .. as a part of the path", "the plain path")


def _paths_apart(view: View) -> Iterator[Finding]:
    table = view.text("table.path")
    if table is None:
        return
    for path in ("source.files.path", "errors.deadLetterPath", "checkpoint.path"):
        other = view.text(path)
        if other is not None and f"{other}/".startswith(f"{table}/"):
            yield (tuple(path.split(".")), "lies in the table", f"a path outside of table.path {table}")
    source = view.text("source.files.path")
    for path in ("table.path", "errors.deadLetterPath"):
        other = view.text(path)
        if source is None or other is None or not f"{other}/".startswith(f"{source}/"):
            continue
        if re.search(HIDDEN, f"{other}/".removeprefix(source)) is None:
            allowed = f"a path outside of source.files.path {source}, or below a directory of it that begins with _"
            yield (tuple(path.split(".")), "is read by the source", allowed)


def _dead_letter_mode(view: View) -> Iterator[Finding]:
    if view.value("errors.mode") == "fail" and view.value("errors.deadLetterPath") is not None:
        yield (("errors", "deadLetterPath"), "is not allowed with errors.mode fail", "errors.mode deadLetter")


def _times(view: View) -> Iterator[Finding]:
    interval = view.duration("commit.interval")
    if view.value("commit.mode") != "interval" or interval is None:
        return
    written = format_duration(interval)
    trigger = view.duration("commit.trigger")
    if trigger is not None and interval < trigger:
        allowed = f"at least commit.trigger, {format_duration(trigger)}"
        yield (("commit", "interval"), f"is {written}", allowed)
    for path in ("health.maxCommitLag", "health.maxInflightAge", "slo.commitLatency", "slo.freshness"):
        limit = view.duration(path)
        if limit is not None and limit <= interval:
            allowed = f"more than commit.interval, {written}"
            yield (tuple(path.split(".")), f"is {format_duration(limit)}", allowed)
    promise = view.duration("slo.readOptimizedFreshness")
    if promise is not None and promise < 2 * interval:
        allowed = f"at least twice commit.interval, {format_duration(2 * interval)}"
        yield (("slo", "readOptimizedFreshness"), f"is {format_duration(promise)}", allowed)


RULES: Final[Rules] = (
    _services,
    _catalogs,
    _audit,
    _promise,
    _executors,
    _refused_names,
    _plain_paths,
    _paths_apart,
    _dead_letter_mode,
    _times,
)
