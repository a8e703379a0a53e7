"""The kinds of objects that the operator uses, and their paths in the Kubernetes API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from bucketingest.spec.model import API_GROUP, API_VERSION


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object, and its path in the API."""

    group: str
    version: str
    plural: str
    metadata_only: bool = False
    """Lists and watches return names, labels and annotations only."""

    def path(self, namespace: str | None, name: str | None = None, part: str | None = None) -> str:
        """Path of one object, of a part of it, or of all of them."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = ["namespaces", namespace] if namespace is not None else []
        parts += [each for each in (self.plural, name, part) if each is not None]
        return "/".join([base, *(quote(each, safe="") for each in parts)])


BUCKET_INGESTS: Final = Kind(API_GROUP, API_VERSION, "bucketingests")
PODS: Final = Kind("", "v1", "pods")
JOBS: Final = Kind("batch", "v1", "jobs")
CONFIG_MAPS: Final = Kind("", "v1", "configmaps", metadata_only=True)
SECRETS: Final = Kind("", "v1", "secrets")
SERVICE_ACCOUNTS: Final = Kind("", "v1", "serviceaccounts")
NETWORK_POLICIES: Final = Kind("networking.k8s.io", "v1", "networkpolicies")
ROLES: Final = Kind("rbac.authorization.k8s.io", "v1", "roles")
ROLE_BINDINGS: Final = Kind("rbac.authorization.k8s.io", "v1", "rolebindings")
LEASES: Final = Kind("coordination.k8s.io", "v1", "leases")
EVENTS: Final = Kind("", "v1", "events")
NODES: Final = Kind("", "v1", "nodes")

BY_NAME: Final[dict[str, Kind]] = {
    "ConfigMap": CONFIG_MAPS,
    "Job": JOBS,
    "NetworkPolicy": NETWORK_POLICIES,
    "Pod": PODS,
    "Role": ROLES,
    "RoleBinding": ROLE_BINDINGS,
    "Secret": SECRETS,
    "ServiceAccount": SERVICE_ACCOUNTS,
}
