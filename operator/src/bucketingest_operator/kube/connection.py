"""Address and credentials for the API server: from the pod's service account, or a user's kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, TypeAlias

import kopf
from kubernetes.aio import config
from kubernetes.aio.client import Configuration as _Configuration

from bucketingest.errors import BucketIngestError

Configuration: TypeAlias = Any
"""The kubernetes client's: it renews credentials that expire."""
ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoCluster(BucketIngestError):
    """There is no address of an API server."""


async def find_configuration() -> Configuration:
    """The API server and the credentials. `KUBECONFIG` wins over the service account, so that a pod can use another
    cluster. Raises NoCluster if there is neither, or it cannot be used.
    """
    found, kubeconfig = _Configuration(), os.environ.get("KUBECONFIG")
    try:
        if kubeconfig is None and (ACCOUNT_FOLDER / "token").is_file():
            config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(kubeconfig, client_configuration=found)  # type: ignore[no-untyped-call]
    except (OSError, KeyError, TypeError, ValueError, config.ConfigException) as error:
        raise NoCluster(
            f"No cluster: {error}. Set KUBECONFIG, check its current context, or run in a pod with a service account."
        ) from error
    # The API server is asked directly, as proxies of the environment are for other hosts; a kubeconfig can name one.
    found.client_session_kwargs = {"trust_env": False}
    found.connection_pool_maxsize = 0
    return found


async def kopf_connection() -> kopf.ConnectionInfo:
    """The same for Kopf's own client. Raises NoCluster."""
    found = await find_configuration()
    scheme, _, token = (await found.get_api_key_with_prefix("BearerToken") or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        insecure=not found.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
        proxy_url=found.proxy,
    )


def own_namespace() -> str | None:
    """The namespace of this pod; None outside of a cluster."""
    try:
        return (ACCOUNT_FOLDER / "namespace").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None
