"""What a change of the spec means for a running driver: nothing, a graceful restart, or a refusal."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, tzinfo
from enum import Enum
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bucketingest.spec.errors import Problem
from bucketingest.spec.fields.runtime import MaintenanceWindow
from bucketingest.spec.fields.table import IMMUTABLE_INDEX_FIELDS, IMMUTABLE_TABLE_FIELDS
from bucketingest.spec.model import BucketIngest
from bucketingest_operator.manifests.spark_ports import JAVA_VARIABLE, SECRET_VARIABLE
from bucketingest_operator.observation import AttemptInput

NO_RESTART: Final = ("suspend", "health", "restart", "slo", "upgrade", "audit")
"""Fields that only the operator reads, but for one."""
COMPACTED_BY: Final = "readOptimizedFreshness"
"""The part of `slo` by which the driver compacts."""

# The operator makes a driver's pods. These settings are harmless: they name no account, no host's resource and no
# template, and do not decide who owns the pods.
_ALLOWED_KUBERNETES: Final = (
    "spark.kubernetes.allocation.",
    "spark.kubernetes.executor.annotation.",
    "spark.kubernetes.executor.deleteOnTermination",
    "spark.kubernetes.executor.limit.cores",
    "spark.kubernetes.executor.missingPodDetectDelta",
    "spark.kubernetes.executor.node.selector.",
    "spark.kubernetes.executor.request.cores",
    "spark.kubernetes.executor.volumes.emptydir.",
    "spark.kubernetes.local.dirs.tmpfs",
    "spark.kubernetes.memoryOverheadFactor",
    "spark.kubernetes.node.selector.",
)
_OPERATORS: Final = (
    "spark.authenticate",
    "spark.kubernetes.",
    "spark.network.crypto.",
    "spark.network.sasl.",
    "spark.driver.bindAddress",
    "spark.driver.blockManager.port",
    "spark.driver.host",
    "spark.driver.port",
    "spark.driver.resource.",
    "spark.executor.resource.",
    *(f"spark.executorEnv.{name}" for name in (JAVA_VARIABLE, SECRET_VARIABLE)),
)
_INSTEAD: Final = {f"spark.executorEnv.{JAVA_VARIABLE}": "spark.executor.extraJavaOptions"}
# What the operator sets too: specs from before it did so stay valid.
_HARMLESS: Final = frozenset({("spark.authenticate", "true"), ("spark.network.crypto.enabled", "true")})


class Change(Enum):
    """What a spec asks for if it differs from the one that an attempt was started with."""

    NONE = "none"
    RESTART = "graceful restart"
    REFUSED = "refused"


def digest(wanted: BucketIngest) -> str:
    """Short hash of everything that a driver is started with.

    A version that adds a field with a default must not restart every driver: the hash covers only what is not default.
    The Jobs of table services are left out: the operator alone reads it.
    """
    document = wanted.spec.to_document(defaults=False)
    services = document.get("services", {})
    services.get("compaction", {}).pop("job", None)
    services.pop("whileSuspended", None)
    read = {name: value for name, value in document.items() if name not in NO_RESTART}
    promise = {name: value for name, value in document.get("slo", {}).items() if name == COMPACTED_BY}
    return _hash(_without_empty({**read, "slo": promise}))


def _without_empty(document: dict[str, Any]) -> dict[str, Any]:
    """The document without empty sections: `commit: {}` means the same as no `commit`."""
    inner = {name: _without_empty(value) if isinstance(value, dict) else value for name, value in document.items()}
    return {name: value for name, value in inner.items() if value != {}}


def compaction_digest(wanted: BucketIngest) -> str:
    """Short hash of everything that a compaction's Job is made from."""
    spec = wanted.spec
    job = spec.services.compaction.job.to_document()
    pod = spec.pod.to_document(defaults=False)
    # Without a pod section it is as before there was one: an upgrade replaces no running Job.
    return _hash({"job": job, "image": spec.spark.image, "table": spec.table.path, **({"pod": pod} if pod else {})})


def audit_digest(wanted: BucketIngest) -> str:
    """Short hash of what an audit's Job is made from."""
    return _hash({} if wanted.spec.audit is None else wanted.spec.audit.to_document(defaults=False))


def fixed_digest(wanted: BucketIngest) -> str:
    """Short hash of the fields that can never change for a table. Like `digest`, it survives new fields."""
    table = wanted.spec.to_document(defaults=False)["table"]
    index = table.get("index", {})
    fixed = {name: table[name] for name in IMMUTABLE_TABLE_FIELDS if name in table}
    return _hash({**fixed, "index": {name: index[name] for name in IMMUTABLE_INDEX_FIELDS if name in index}})


def change_since(attempt_input: AttemptInput, wanted: BucketIngest) -> Change:
    """What the spec asks for, compared with an attempt. The API server refuses most of REFUSED; an old CRD does not."""
    if attempt_input.fixed_digest != fixed_digest(wanted):
        return Change.REFUSED
    return Change.NONE if attempt_input.spec_digest == digest(wanted) else Change.RESTART


def with_image(wanted: BucketIngest, image: str | None) -> BucketIngest:
    """The same with another image."""
    spark = wanted.spec.spark.model_copy(update={"image": image})
    return wanted.model_copy(update={"spec": wanted.spec.model_copy(update={"spark": spark})})


def cluster_problems(wanted: BucketIngest) -> tuple[Problem, ...]:
    """What only the operator can refuse: settings that decide about pods, and who may talk to them; time zones."""
    conf = wanted.spec.spark.conf.items()
    names = sorted(name for name, value in conf if _is_operators(name) and (name, str(value)) not in _HARMLESS)
    settings = tuple(
        Problem(
            f"spec.spark.conf.{name}",
            "is set by the operator",
            _INSTEAD.get(name, "a setting that does not decide about pods or who may talk to them"),
        )
        for name in names
    )
    windows = {
        f"restart.maintenanceWindows[{number}]": window
        for number, window in enumerate(wanted.spec.restart.maintenance_windows)
    }
    if wanted.spec.audit is not None:
        windows["audit.window"] = wanted.spec.audit.window
    zones = tuple(
        Problem(
            f"spec.{name}.timeZone",
            f"{window.time_zone} is not known to the operator",
            "the name of a time zone, such as Europe/Berlin",
        )
        for name, window in windows.items()
        if zone_of(window) is None
    )
    return settings + zones


def zone_of(window: MaintenanceWindow) -> tzinfo | None:
    """Its time zone; None if there is no such zone."""
    try:
        return UTC if window.time_zone == "UTC" else ZoneInfo(window.time_zone)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return None


def _is_operators(name: str) -> bool:
    lower = name.lower()
    return any(lower.startswith(start.lower()) for start in _OPERATORS) and not any(
        lower.startswith(start.lower()) for start in _ALLOWED_KUBERNETES
    )


def table_key(path: str) -> str:
    """The table's path in one spelling, so that two resources cannot name one table differently."""
    scheme, colon, rest = path.partition("://")
    if not colon:
        return f"file://{path.rstrip('/')}"
    scheme = {"s3a": "s3", "s3n": "s3", "az": "abfss"}.get(scheme.lower(), scheme.lower())
    return f"{scheme}://{rest.rstrip('/')}"


def _hash(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
