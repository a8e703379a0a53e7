"""Who may talk to Spark's own ports: pods with the pipeline's secret, and by the network's rules only its own pods."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from bucketingest_operator.manifests.settings import JobSettings

SECRET_BYTES: Final = 32
SECRET_NAME_BYTES: Final = 5
SECRET_KEY: Final = "secret"  # noqa: S105 - a name
SECRET_VOLUME: Final = "rpc-secret"  # noqa: S105 - a name
_NAME_MAX: Final = 253
SECRET_FOLDER: Final = "/etc/bucketingest-rpc"  # noqa: S105 - a path

SECRET_VARIABLE: Final = "_SPARK_AUTH_SECRET"  # noqa: S105 - a name
"""Spark takes this environment variable of an executor before the file."""
JAVA_VARIABLE: Final = "JDK_JAVA_OPTIONS"

SPARK_AUTHENTICATION: Final = {
    "spark.authenticate": "true",
    # Without a file Spark would write the secret into the spec of each executor's pod.
    "spark.authenticate.secret.file": f"{SECRET_FOLDER}/{SECRET_KEY}",
    "spark.network.crypto.authEngineVersion": "2",
    # The default cipher does not notice changed bytes. Spark 4.2.1 is the first here whose GCM is right: before, a
    # channel lost every message after the first.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
}
"""Each connection between driver and executors is authenticated and encrypted."""


def secret_data(secret: str) -> dict[str, str]:
    """Content of the Secret that only the pods of a pipeline mount."""
    return {SECRET_KEY: base64.b64encode(secret.encode()).decode()}


def secret_volume(name: str) -> dict[str, Any]:
    """The Secret as a volume of a driver or an executor."""
    return {"name": SECRET_VOLUME, "secret": {"secretName": name, "defaultMode": 0o440}}


def secret_mounted(pod_spec: Mapping[str, Any]) -> str:
    """Name of the Secret that a pod mounts so; "" if it mounts none."""
    volumes = (each for each in pod_spec.get("volumes") or () if each.get("name") == SECRET_VOLUME)
    return next((str((each.get("secret") or {}).get("secretName") or "")[:_NAME_MAX] for each in volumes), "")


def secret_mount() -> dict[str, Any]:
    """Where Spark reads it."""
    return {"name": SECRET_VOLUME, "mountPath": SECRET_FOLDER, "readOnly": True}


def executor_java_options(settings: JobSettings) -> str:
    """What the `java` of an executor takes from its environment: that it runs on Kubernetes.

    Spark reads the file only then, and sends an executor its master only after the first authenticated connection: it
    would end with "A secret key must be specified". Spark refuses it in spark.executor.extraJavaOptions.
    """
    return f"{settings.env.get(JAVA_VARIABLE, '')} -Dspark.master={settings.master}".strip()


def policy_spec(own: Mapping[str, str], http_port: int, settings: JobSettings) -> dict[str, Any]:
    """Rules for the pods that have the labels `own`: these may talk to each other, others only to the HTTP port."""
    pods = {"podSelector": {"matchLabels": dict(own)}}
    http: dict[str, Any] = {"ports": [{"port": http_port, "protocol": "TCP"}]}
    if settings.network_policy.metrics_from:
        http["from"] = [dict(peer) for peer in settings.network_policy.metrics_from]
    return {**pods, "policyTypes": ["Ingress"], "ingress": [{"from": [pods]}, http]}
