"""The minimal rights of the operator, as RBAC rules: the chart must grant these, and tests run with them."""

from __future__ import annotations

from typing import Any, Final

from bucketingest.spec.model import API_GROUP
from bucketingest_operator.kube.leadership import LEASE_NAME
from bucketingest_operator.kube.watch_claims import WATCH_LEASE

Rule = dict[str, list[str]]

_RBAC: Final = "rbac.authorization.k8s.io"


def _rule(group: str, resources: str, verbs: str, *names: str) -> Rule:
    rule: dict[str, Any] = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return {**rule, "resourceNames": list(names)} if names else rule


NAMESPACED: Final[tuple[Rule, ...]] = (
    _rule(API_GROUP, "bucketingests", "get list watch patch"),
    _rule(API_GROUP, "bucketingests/status", "update"),
    # `get` and `patch` only because an account cannot give a driver rights that it lacks.
    _rule("", "pods", "create delete deletecollection get list patch watch"),
    _rule("", "configmaps", "create delete list watch"),
    # Not `get`: the operator makes the secrets of Spark's ports, and reads none.
    _rule("", "secrets", "create"),
    _rule("", "serviceaccounts", "create patch"),
    _rule("", "events", "create"),
    _rule("batch", "jobs", "create delete list watch"),
    _rule("networking.k8s.io", "networkpolicies", "create delete patch"),
    _rule(_RBAC, "roles", "create patch"),
    _rule(_RBAC, "rolebindings", "create patch"),
)
"""In each namespace with BucketIngests, or in the whole cluster."""

LEASE: Final[tuple[Rule, ...]] = (
    _rule("coordination.k8s.io", "leases", "create"),
    _rule("coordination.k8s.io", "leases", "get update", LEASE_NAME),
)
"""In the operator's own namespace."""

WATCH: Final[tuple[Rule, ...]] = (
    _rule("coordination.k8s.io", "leases", "create"),
    _rule("coordination.k8s.io", "leases", "get update", WATCH_LEASE),
)
"""In each namespace that the operator names, or in `kube-system`."""

WHOLE_CLUSTER: Final[tuple[Rule, ...]] = (_rule("coordination.k8s.io", "leases", "list"),)
"""Of an operator that names no namespaces."""

CLUSTER: Final[tuple[Rule, ...]] = (_rule("", "nodes", "get"),)
"""In the whole cluster; optional: without it a driver on a lost node blocks the next until Kubernetes removes it."""
