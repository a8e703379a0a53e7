"""The defaults of release 0.1.0, frozen: its digests had them, and a digest that changes restarts a whole fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DEFAULTS: Final[dict[str, Any]] = {
    "suspend": False,
    "transform": {"sql": "SELECT * FROM source"},
    "table": {
        "partitionBy": [],
        "hiveStylePartitioning": False,
        "version": 9,
        "index": {"type": "bucket", "buckets": 64, "hash": "hudi"},
        "memoryPerTask": "256Mi",
        "lock": {
            "provider": "auto",
            "waitTimeout": "1m",
            "leaseValidity": "30s",
            "onHeld": "wait",
            "heldTimeout": "2m",
        },
        "properties": {},
    },
    "commit": {"mode": "interval", "interval": "30s", "trigger": "2s", "maxFiles": 100_000, "maxRetries": 5},
    "services": {
        "compaction": {"logAge": "1h", "logFiles": 50, "logPercent": 50},
        "clean": {"retain": "24h"},
    },
    "errors": {"mode": "deadLetter"},
    "checkpoint": {},
    "health": {"maxCommitLag": "5m", "maxInflightAge": "10m"},
    "restart": {"maxFailures": 10, "window": "1h"},
    "slo": {"commitLatency": "1m"},
    "spark": {
        "driver": {"cores": "1", "memory": "2Gi"},
        "executor": {"instances": 2, "cores": "2", "memory": "4Gi"},
        "conf": {},
    },
}
_OF_A_SOURCE: Final[dict[str, Any]] = {
    "kafka": {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 1_000_000, "options": {}},
    "files": {"maxFilesPerTrigger": 100, "options": {}},
}

FIXED_TABLE_FIELDS: Final = (
    "path",
    "name",
    "recordKey",
    "partitionBy",
    "hiveStylePartitioning",
    "orderingField",
    "version",
)
FIXED_INDEX_FIELDS: Final = ("type", "buckets", "hashFields", "hash")
"""The fields that release 0.1.0 had in the digest of what is immutable, also where they were absent."""


def with_first_defaults(document: Mapping[str, Any]) -> dict[str, Any]:
    """A spec without its defaults, with those of release 0.1.0 filled in. Fields that were added later stay absent."""
    filled = _fill(document, _DEFAULTS)
    source = filled["source"]
    given = {kind: _fill(source[kind], defaults) for kind, defaults in _OF_A_SOURCE.items() if kind in source}
    return {**filled, "source": {**source, **given}}


def _fill(document: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The document with absent fields filled in, at every depth."""
    filled = dict(document)
    for name, default in defaults.items():
        if isinstance(default, dict):
            filled[name] = _fill(filled.get(name, {}), default)
        else:
            filled.setdefault(name, default)
    return filled
