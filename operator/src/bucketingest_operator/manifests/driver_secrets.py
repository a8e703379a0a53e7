"""The Secrets that only a driver, and the check of a changed spec, mount: options of the Kafka source, access to the
schema registry.
"""

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


def mount_secrets(
    wanted: BucketIngest, volumes: list[dict[str, Any]], mounts: list[dict[str, Any]], env: dict[str, str]
) -> None:
    """Add them to the volumes, mounts and environment variables of a pod."""
    if secrets := source_secrets(wanted):
        volumes.append({"name": "source-options", "projected": {"sources": secrets, "defaultMode": 0o440}})
        mounts.append({"name": "source-options", "mountPath": OPTIONS_FOLDER, "readOnly": True})
        env[OPTIONS_VARIABLE] = OPTIONS_FOLDER
    if (registry := registry_secret(wanted)) is not None:  # read at each request: a new one needs no restart
        volumes.append({"name": "registry-secret", "secret": {"secretName": registry, "defaultMode": 0o440}})
        mounts.append({"name": "registry-secret", "mountPath": REGISTRY_FOLDER, "readOnly": True})
        env[REGISTRY_VARIABLE] = REGISTRY_FOLDER
