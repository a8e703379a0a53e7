"""Address and credentials for the API server: from the pod's service account, or a user's kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import kopf

from bucketingest.errors import BucketIngestError

ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoCluster(BucketIngestError):
    """There is no address of an API server."""


def find_connection() -> kopf.ConnectionInfo:
    """The API server and the credentials, read again at each call: a service account's token changes every hour.

    `KUBECONFIG` wins over the service account, so that a pod can use another cluster. Login programs that a kubeconfig
    names (`exec`) are not run.

    Raises:
        NoCluster: There is neither a kubeconfig nor a service account, or the kubeconfig cannot be used.
    """
    if not os.environ.get("KUBECONFIG") and (ACCOUNT_FOLDER / "token").is_file():
        return _service_account()
    try:
        found = kopf.login_with_kubeconfig(settings=kopf.OperatorSettings())
    except (OSError, KeyError, ValueError, kopf.LoginError) as error:
        raise NoCluster(f"The kubeconfig cannot be used: {error}. Check KUBECONFIG and its current context.") from error
    if found is None:
        raise NoCluster("No cluster: this is not a pod, KUBECONFIG is not set and there is no ~/.kube/config.")
    return found


def _service_account() -> kopf.ConnectionInfo:
    # The IP address, because the cluster's DNS may be down.
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return kopf.ConnectionInfo(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_path=str(ACCOUNT_FOLDER / "ca.crt"),
        token=(ACCOUNT_FOLDER / "token").read_text(encoding="utf-8").strip(),
        default_namespace=own_namespace(),
    )


def own_namespace() -> str | None:
    """The namespace of this pod; None outside of a cluster."""
    try:
        return (ACCOUNT_FOLDER / "namespace").read_text(encoding="utf-8").strip() or None
    except OSError:
        return None
