"""The pod section of a resource, laid over the settings of all jobs: it adds to them, and wins where both say it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bucketingest.spec.fields.pod import Pod, Volume
from bucketingest_operator.manifests.settings import JobSettings

_VOLUME_PREFIX: Final = "pod-"
"""So that a user's volume has no name of the operator's, Spark's or the settings' volumes."""


def settings_of_pod(settings: JobSettings, pod: Pod, selector: dict[str, str]) -> JobSettings:
    """The settings of one resource's jobs. `selector`: labels that all its pods have, and no others."""
    env = {each.name: each.value for each in pod.env if each.value is not None}
    secret_keys = {
        each.name: (each.secret_key_ref.name, each.secret_key_ref.key)
        for each in pod.env
        if each.secret_key_ref is not None
    }
    return replace(
        settings,
        image_pull_secrets=tuple(dict.fromkeys((*settings.image_pull_secrets, *pod.image_pull_secrets))),
        env={name: value for name, value in settings.env.items() if name not in secret_keys} | env,
        env_secret_keys=secret_keys,
        volumes=(*settings.volumes, *map(_volume, pod.volumes)),
        volume_mounts=(*settings.volume_mounts, *map(_mount, pod.volumes)),
        pod_labels={**settings.pod_labels, **pod.labels},
        pod_annotations={**settings.pod_annotations, **pod.annotations},
        node_selector={**settings.node_selector, **pod.node_selector},
        tolerations=(*settings.tolerations, *(each.to_document(defaults=False) for each in pod.tolerations)),
        topology_spread=tuple(
            {
                "maxSkew": each.max_skew,
                "topologyKey": each.topology_key,
                "whenUnsatisfiable": each.when_unsatisfiable,
                "labelSelector": {"matchLabels": selector},
            }
            for each in pod.topology_spread
        ),
        affinity={} if pod.affinity is None else pod.affinity.to_document(defaults=False),
        account=pod.service_account_name or "",
        priority_class_name=pod.priority_class_name or settings.priority_class_name,
    )


def _volume(volume: Volume) -> dict[str, Any]:
    if volume.secret is not None:
        source: dict[str, Any] = {"secret": {"secretName": volume.secret, "defaultMode": 0o440}}
    elif volume.config_map is not None:
        source = {"configMap": {"name": volume.config_map}}
    else:
        source = {"persistentVolumeClaim": {"claimName": volume.persistent_volume_claim}}
    return {"name": f"{_VOLUME_PREFIX}{volume.name}", **source}


def _mount(volume: Volume) -> dict[str, Any]:
    mount = {"name": f"{_VOLUME_PREFIX}{volume.name}", "mountPath": volume.mount_path}
    return {**mount, "readOnly": True} if volume.read_only else mount
