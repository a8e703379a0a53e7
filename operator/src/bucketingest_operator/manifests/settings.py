"""The settings that an administrator chooses for all jobs: images, identities, volumes, placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of jobs' pods that a BucketIngest does not contain.

    Attributes:
        image: For resources that name none.
        pull_policy: `Always`, `IfNotPresent` or `Never`.
        pull_secrets: Names of Secrets in the job's namespace, for pulling images.
        grace: Time for a driver to commit and end; its pod gets some seconds more.
        run_as_user: User and group of all processes; None: the namespace chooses, as OpenShift does.
        env: Environment variables of all jobs, such as a region or an endpoint. No secrets: pods show them.
        env_secret_keys: Environment variables of one resource: name -> name and key of a Secret.
        env_from_secrets: Names of Secrets in the job's namespace whose keys become environment variables, such as
            credentials for storage. One that does not exist is ignored.
        volumes: Kubernetes volumes of driver, executors and rollback Job, such as a claim for tables at `file` paths.
        volume_mounts: Where these are mounted.
        service_account_annotations: Cloud providers use them to give an identity to pods.
        allowed_accounts: ServiceAccounts that a BucketIngest may name, as `namespace/name`.
        table_owners: Prefix of paths -> namespaces whose pipelines may write below it. The longest prefix counts; what
            is below none, all may write.
        account: That of one resource; empty: the operator makes one.
        pod_labels: Additional labels of all pods.
        pod_annotations: Additional annotations of all pods.
        node_selector: Labels of the nodes that pods may run on.
        tolerations: Kubernetes tolerations.
        topology_spread: Kubernetes topology spread constraints, with their selectors.
        affinity: Kubernetes affinity of one resource.
        priority_class: Name of the pods' PriorityClass.
        allowed_priority_classes: Those that a BucketIngest may name; empty: all but those of the system.
        allowed_toleration_keys: Keys of taints that a BucketIngest may tolerate; empty: each, but not all at once.
        scheduler: Name of the pods' scheduler.
        runtime_class: Name of the pods' RuntimeClass.
        ephemeral_storage: Local disk of each pod, as Kubernetes writes it: requested, and the limit.
        master: Spark's name of the API server.
        cluster_domain: Suffix of a Service's DNS name after its name and namespace.
        network_policy: Whether each pipeline gets a NetworkPolicy.
        metrics_from: Kubernetes' peers that may then read progress and metrics, the operator among them; empty: all.
    """

    image: str = "bucketingest-job:latest"
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    grace: timedelta = timedelta(seconds=60)
    run_as_user: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_secret_keys: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    env_from_secrets: tuple[str, ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    service_account_annotations: Mapping[str, str] = field(default_factory=dict)
    allowed_accounts: frozenset[str] = frozenset()
    table_owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    account: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    topology_spread: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] = field(default_factory=dict)
    priority_class: str | None = None
    allowed_priority_classes: frozenset[str] = frozenset()
    allowed_toleration_keys: frozenset[str] = frozenset()
    scheduler: str | None = None
    runtime_class: str | None = None
    ephemeral_storage: str | None = None
    master: str = "k8s://https://kubernetes.default.svc:443"
    cluster_domain: str = "svc"
    network_policy: bool = True
    metrics_from: tuple[Mapping[str, Any], ...] = ()
