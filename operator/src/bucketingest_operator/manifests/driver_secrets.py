"""The Secrets that only a driver mounts: options of the Kafka source, access to the schema registry."""

from __future__ import annotations

from typing import Any, Final

from bucketingest.spec.model import BucketIngest

OPTIONS_FOLDER: Final = "/etc/bucketingest-source-options"
OPTIONS_VARIABLE: Final = "BUCKETINGEST_SOURCE_OPTIONS"
"""Environment variable: a folder with one file for each option of the Kafka source; the file's name is the option's."""
REGISTRY_FOLDER: Final = "/etc/bucketingest-registry"
REGISTRY_VARIABLE: Final = "BUCKETINGEST_REGISTRY_SECRET"
"""Environment variable: a folder with the Secret of the schema registry."""


def source_secrets(wanted: BucketIngest) -> list[dict[str, Any]]:
    """Sources of the folder of options: a whole Secret, then single keys, which win: a later file replaces one."""
    kafka = wanted.spec.source.kafka
    if kafka is None:
        return []
    sources: list[dict[str, Any]] = [] if kafka.secret_ref is None else [{"secret": {"name": kafka.secret_ref.name}}]
    for option, source in kafka.options_from.items():
        reference = source.secret_key_ref
        sources.append({"secret": {"name": reference.name, "items": [{"key": reference.key, "path": option}]}})
    return sources


def registry_secret(wanted: BucketIngest) -> str | None:
    """Name of the Secret of the schema registry; None if there is none."""
    registry = None if wanted.spec.format is None else wanted.spec.format.registry
    return None if registry is None or registry.secret_ref is None else registry.secret_ref.name
