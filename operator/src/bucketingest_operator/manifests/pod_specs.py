"""The specs of pods: driver, executors, Jobs. All meet Kubernetes' restricted security standard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bucketingest.spec.model import API_GROUP, BucketIngest
from bucketingest.spec.quantity import format_cores, format_duration
from bucketingest_operator.manifests.driver_secrets import (
    OPTIONS_FOLDER,
    REGISTRY_FOLDER,
    mount_secrets,
    source_secrets,
)
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.manifests.spark_conf import (
    BLOCK_PORT,
    CONFIG_FOLDER,
    DRIVER_PORT,
    EXECUTOR_CONTAINER,
    MIB,
    cpu_limit,
    driver_pod_mib,
    executor_overhead_mib,
    master,
)
from bucketingest_operator.manifests.spark_ports import (
    JAVA_VARIABLE,
    SECRET_FOLDER,
    SECRET_VOLUME,
    executor_java_options,
    secret_mount,
    secret_volume,
)

SPEC_FILE: Final = "bucketingest.yaml"
SPARK_DEFAULTS_FILE: Final = "spark-defaults.conf"
HTTP_PORT: Final = 9808
DRIVER_CONTAINER: Final = "driver"
ROLLBACK_CONTAINER: Final = "rollback"
COMPACTION_CONTAINER: Final = "compaction"
PREFLIGHT_CONTAINER: Final = "preflight"
AUDIT_CONTAINER: Final = "audit"
SPEC_ANNOTATION: Final = f"{API_GROUP}/spec"
"""Of a pod that is given the spec so: the spec. No other object that a user could make in its place holds it."""
_MARGIN_SECONDS: Final = 15
"""Extra time of a pod after the job's own grace, so that the job can report how it ended."""

_CONTAINER_SECURITY: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_ADDRESS: Final = {"name": "SPARK_LOCAL_HOSTNAME", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
"""By which executors connect to their driver: a pod has one address as long as it is there."""
# Spark mounts its own volume for SPARK_LOCAL_DIRS, at the same path, unless a volume has such a name.
_LOCAL_DIRS: Final = "spark-local-dir-1"
# Temporary files, Spark's scratch space, and the checkpoint, which may be lost.
_SCRATCH: Final = {"tmp": "/tmp", _LOCAL_DIRS: "/var/data", "state": "/var/lib/bucketingest"}  # noqa: S108
RESERVED_VOLUMES: Final = frozenset({*_SCRATCH, "config", "source-options", "registry-secret", SECRET_VOLUME})
RESERVED_MOUNTS: Final = (*_SCRATCH.values(), CONFIG_FOLDER, OPTIONS_FOLDER, REGISTRY_FOLDER, SECRET_FOLDER)
"""Names and folders that the settings cannot use for volumes of their own."""


def driver_ports(wanted: BucketIngest) -> dict[str, int]:
    """The ports of the driver's pod by name: Spark's are there for executors."""
    sparks = {} if wanted.spec.spark.is_driver_only else {"driver": DRIVER_PORT, "blocks": BLOCK_PORT}
    return {"http": HTTP_PORT, **sparks}


def driver_pod_spec(
    wanted: BucketIngest, names: Names, number: int, settings: JobSettings, rpc_secret: str, *, ended: tuple[str, ...]
) -> dict[str, Any]:
    """Spec of the driver pod, which runs once. `ended`: earlier driver pods whose processes have ended."""
    volumes, mounts = _volumes(settings)
    volumes += [{"name": "config", "configMap": {"name": names.attempt(number)}}, secret_volume(rpc_secret)]
    mounts += [{"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True}, secret_mount()]
    env = {
        "BUCKETINGEST_GRACE": format_duration(settings.grace),
        "BUCKETINGEST_LISTEN": f":{HTTP_PORT}",
        # The image may be older than the operator.
        "BUCKETINGEST_UNKNOWN_FIELDS": "ignore",
        # Without an operator nobody would make the Job of a compaction.
        "BUCKETINGEST_SERVICE_JOBS": "true",
        # Without a master in the environment the job would take all cores of the node.
        "MASTER": master(wanted, settings),
        "SPARK_CONF_DIR": CONFIG_FOLDER,
        "SPARK_LOCAL_DIRS": _SCRATCH[_LOCAL_DIRS],
    }
    if ended:
        env["BUCKETINGEST_ENDED_DRIVERS"] = ",".join(ended)
    mount_secrets(wanted, volumes, mounts, env)
    if source_secrets(wanted) or any(each.persistent_volume_claim is None for each in wanted.spec.pod.volumes):
        # The operator cannot read Secrets: the driver notices a new one, and the operator starts the next attempt.
        env["BUCKETINGEST_STOP_ON_CHANGED_SECRET"] = "true"  # noqa: S105 - no password
    container = {
        **_container(DRIVER_CONTAINER, wanted, settings),
        "args": ["run", f"{CONFIG_FOLDER}/{SPEC_FILE}"],
        "env": [*_env(env, settings), *([] if wanted.spec.spark.is_driver_only else [_ADDRESS])],
        "ports": [{"name": name, "containerPort": port} for name, port in driver_ports(wanted).items()],
        "resources": _resources(wanted, settings, wanted.spec.spark.driver.cores, f"{driver_pod_mib(wanted)}Mi"),
        "volumeMounts": mounts,
        # Ready as soon as it answers: Spark makes no executor for a second while its driver's pod is not ready.
        "startupProbe": {**_probe("/healthz"), "periodSeconds": 1, "failureThreshold": 600},
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 30, "failureThreshold": 6},
    }
    return {
        **_pod(names, settings),
        # Only the driver calls the Kubernetes API, and only for its executors.
        "automountServiceAccountToken": not wanted.spec.spark.is_driver_only,
        "terminationGracePeriodSeconds": int(settings.grace.total_seconds()) + _MARGIN_SECONDS,
        "containers": [container],
        "volumes": volumes,
    }


def executor_template(wanted: BucketIngest, names: Names, settings: JobSettings, rpc_secret: str) -> dict[str, Any]:
    """Template that Spark completes with name, image, command, size and owner."""
    volumes, mounts = _volumes(settings)
    container = {
        "name": EXECUTOR_CONTAINER,
        "image": wanted.spec.spark.image or settings.image,
        "securityContext": _CONTAINER_SECURITY,
        "env": _env({JAVA_VARIABLE: executor_java_options(settings)}, settings),
        "envFrom": _env_from(settings),
        "volumeMounts": [*mounts, secret_mount()],
    }
    if disk := _disk(settings):
        container["resources"] = {"requests": disk, "limits": disk}  # Spark adds memory and cores
    spec = _pod_without_rights(names, settings, container, [*volumes, secret_volume(rpc_secret)])
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


def executor_resources(wanted: BucketIngest, settings: JobSettings) -> dict[str, Any]:
    """What Spark requests for an executor, by the settings that the operator gives it."""
    spark = wanted.spec.spark
    memory = f"{spark.executor.memory // MIB + executor_overhead_mib(wanted)}Mi"
    default = cpu_limit(wanted, spark.executor.cores)
    limit = spark.conf.get("spark.kubernetes.executor.limit.cores", None if default is None else f"{default}m")
    cpu = spark.conf.get("spark.kubernetes.executor.request.cores", f"{spark.executor.cores}m")
    disk = _disk(settings)
    limits = {"memory": memory, **({} if limit is None else {"cpu": str(limit)}), **disk}
    return {"requests": {"cpu": str(cpu), "memory": memory, **disk}, "limits": limits}


def rollback_pod_spec(wanted: BucketIngest, names: Names, settings: JobSettings) -> dict[str, Any]:
    """Pod of the rollback Job: no Spark, no right on the cluster, the job's identity for storage."""
    volumes, mounts = _volumes(settings)
    table = wanted.spec.table
    container = {
        **_container(ROLLBACK_CONTAINER, wanted, settings),
        "args": ["rollback", table.path, "--lock", table.lock.provider],
        "env": _env({}, settings),
        "resources": _resources(wanted, settings, 100, "1Gi"),
        "volumeMounts": mounts,
    }
    return _pod_without_rights(names, settings, container, volumes)


def preflight_pod_spec(wanted: BucketIngest, names: Names, settings: JobSettings) -> dict[str, Any]:
    """Pod that checks a spec: the driver's image, account and Secrets, but no executors and no right on the cluster."""
    volumes, mounts = _volumes(settings)
    _mount_annotation(volumes, mounts)
    env = {"BUCKETINGEST_UNKNOWN_FIELDS": "ignore", "SPARK_LOCAL_DIRS": _SCRATCH[_LOCAL_DIRS]}
    mount_secrets(wanted, volumes, mounts, env)
    container = {
        **_container(PREFLIGHT_CONTAINER, wanted, settings),
        "args": ["validate", "--connect", f"{CONFIG_FOLDER}/{SPEC_FILE}"],
        "env": _env(env, settings),
        "resources": _resources(wanted, settings, 100, "2Gi"),
        "volumeMounts": mounts,
    }
    # It has nothing to finish.
    return {**_pod_without_rights(names, settings, container, volumes), "terminationGracePeriodSeconds": 5}


def _resources(wanted: BucketIngest, settings: JobSettings, cores: int, memory: str) -> dict[str, Any]:
    """Of a container that requests these thousandths of a core. It requests all of the memory that it may use: a node
    that has lent it to others ends the process, and some namespaces refuse a limit above the request.
    """
    limit = cpu_limit(wanted, cores)
    disk = _disk(settings)
    limits = {"memory": memory, **({} if limit is None else {"cpu": format_cores(limit)}), **disk}
    return {"requests": {"cpu": format_cores(cores), "memory": memory, **disk}, "limits": limits}


def _disk(settings: JobSettings) -> dict[str, str]:
    return {} if settings.ephemeral_storage is None else {"ephemeral-storage": settings.ephemeral_storage}


def _mount_annotation(volumes: list[dict[str, Any]], mounts: list[dict[str, Any]]) -> None:
    """The pod's own annotation, the spec, as a file."""
    spec = {"path": SPEC_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{SPEC_ANNOTATION}']"}}
    volumes.append({"name": "config", "downwardAPI": {"items": [spec], "defaultMode": 0o440}})
    mounts.append({"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True})


def merging_pod_spec(
    wanted: BucketIngest,
    names: Names,
    settings: JobSettings,
    args: list[str],
    *,
    has_spec: bool = False,
    name: str = COMPACTION_CONTAINER,
) -> dict[str, Any]:
    """Pod of a Job that merges: as that of a rollback, but larger. `has_spec`: it has an annotation with the spec;
    `name`: of its container.
    """
    volumes, mounts = _volumes(settings)
    if has_spec:
        _mount_annotation(volumes, mounts)
    size = wanted.spec.services.compaction.job
    container = {
        **_container(name, wanted, settings),
        "args": args,
        # The image may be older than the operator.
        "env": _env({"BUCKETINGEST_UNKNOWN_FIELDS": "ignore"} if has_spec else {}, settings),
        "resources": _resources(wanted, settings, size.cores, f"{size.memory // MIB}Mi"),
        "volumeMounts": mounts,
    }
    return _pod_without_rights(names, settings, container, volumes)


def account_of(names: Names, settings: JobSettings) -> str:
    """Name of the ServiceAccount of all pods."""
    return settings.account or names.base


def _pod(names: Names, settings: JobSettings) -> dict[str, Any]:
    user = settings.run_as_user
    users = {"runAsUser": user, "runAsGroup": user, "fsGroup": user} if user is not None else {}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": account_of(names, settings),
        "securityContext": {
            "runAsNonRoot": True,
            **users,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    chosen = {
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
        "nodeSelector": dict(settings.node_selector),
        "tolerations": [dict(each) for each in settings.tolerations],
        "topologySpreadConstraints": [dict(each) for each in settings.topology_spread],
        "affinity": dict(settings.affinity),
        "priorityClassName": settings.priority_class_name,
        "schedulerName": settings.scheduler_name,
        "runtimeClassName": settings.runtime_class_name,
    }
    return {**spec, **{name: value for name, value in chosen.items() if value}}


def _pod_without_rights(
    names: Names, settings: JobSettings, container: dict[str, Any], volumes: list[dict[str, Any]]
) -> dict[str, Any]:
    """A pod that does not call the Kubernetes API."""
    rest = {"automountServiceAccountToken": False, "containers": [container], "volumes": volumes}
    return {**_pod(names, settings), **rest}


def _container(name: str, wanted: BucketIngest, settings: JobSettings) -> dict[str, Any]:
    return {
        "name": name,
        "image": wanted.spec.spark.image or settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": ["bucketingest"],
        "envFrom": _env_from(settings),
        "securityContext": _CONTAINER_SECURITY,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _env_from(settings: JobSettings) -> list[dict[str, Any]]:
    return [{"secretRef": {"name": name, "optional": True}} for name in settings.env_from_secrets]


def _volumes(settings: JobSettings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes and mounts that all pods have: scratch space, and those of the settings."""
    volumes: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in _SCRATCH]
    mounts: list[dict[str, Any]] = [{"name": name, "mountPath": path} for name, path in _SCRATCH.items()]
    return [*volumes, *map(dict, settings.volumes)], [*mounts, *map(dict, settings.volume_mounts)]


def _env(variables: Mapping[str, str], settings: JobSettings) -> list[dict[str, Any]]:
    """Environment variables of a container; those of the operator win."""
    plain = [{"name": name, "value": value} for name, value in {**settings.env, **variables}.items()]
    references = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for name, (secret, key) in settings.env_secret_keys.items()
        if name not in variables
    ]
    return [*plain, *references]


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": HTTP_PORT}, "timeoutSeconds": 5}
