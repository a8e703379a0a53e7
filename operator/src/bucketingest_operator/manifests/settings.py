"""The settings that an administrator chooses for all jobs: images, identities, volumes, placement. A file has them
under the same names in camelCase.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, Strict, with_config
from pydantic.alias_generators import to_camel

from bucketingest.spec.quantity import parse_duration

_AS_A_FILE: Final = ConfigDict(extra="forbid", alias_generator=to_camel)
Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
AccountPlace: TypeAlias = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
"""`namespace/name`"""
Mappings: TypeAlias = tuple[Mapping[str, Any], ...]


def _duration(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a duration such as 60s or 5m")  # noqa: TRY004 - pydantic reports it as a problem
    return parse_duration(value)


@with_config(_AS_A_FILE)
@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """Whether each pipeline gets a NetworkPolicy, and Kubernetes' peers that may then read progress and metrics, the
    operator among them; none: all may.
    """

    enabled: Annotated[bool, Strict()] = True
    metrics_from: Mappings = ()


@with_config(_AS_A_FILE)
@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of jobs' pods that a BucketIngest does not contain.

    Attributes:
        image: For resources that name none.
        image_pull_secrets: Names of Secrets in the job's namespace, for pulling images.
        grace: Time for a driver to commit and end; its pod gets some seconds more.
        run_as_user: User and group of all processes; None: the namespace chooses, as OpenShift does.
        env: Environment variables of all jobs, such as a region or an endpoint. No secrets: pods show them.
        env_secret_keys: Environment variables of one resource: name -> name and key of a Secret.
        env_from_secrets: Names of Secrets in the job's namespace whose keys become environment variables, such as
            credentials for storage. One that does not exist is ignored.
        volumes: Kubernetes volumes of driver, executors and rollback Job, such as a claim for tables at `file` paths.
        volume_mounts: Where these are mounted.
        allow_host_path: Whether volumes may be folders of nodes.
        service_account_annotations: Cloud providers use them to give an identity to pods.
        allowed_service_accounts: ServiceAccounts that a BucketIngest may name, as `namespace/name`.
        table_owners: Prefix of paths -> namespaces whose pipelines may write below it. The longest prefix counts; what
            is below none, all may write.
        account: That of one resource; empty: the operator makes one.
        pod_labels: Additional labels of all pods.
        pod_annotations: Additional annotations of all pods.
        node_selector: Labels of the nodes that pods may run on.
        tolerations: Kubernetes tolerations.
        topology_spread: Kubernetes topology spread constraints, with their selectors.
        affinity: Kubernetes affinity of one resource.
        priority_class_name: Name of the pods' PriorityClass.
        allowed_priority_classes: Those that a BucketIngest may name; empty: all but those of the system.
        allowed_toleration_keys: Keys of taints that a BucketIngest may tolerate; empty: each, but not all at once.
        scheduler_name: Name of the pods' scheduler.
        runtime_class_name: Name of the pods' RuntimeClass.
        ephemeral_storage: Local disk of each pod, as Kubernetes writes it: requested, and the limit.
        master: Spark's name of the API server.
        network_policy: Those of pipelines.
    """

    image: Annotated[str, Field(min_length=1)] = "bucketingest-job:latest"
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[Name, ...] = ()
    grace: Annotated[timedelta, BeforeValidator(_duration), Field(ge=timedelta(seconds=1))] = timedelta(seconds=60)
    run_as_user: Annotated[int, Field(ge=1, strict=True)] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    env_secret_keys: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    env_from_secrets: tuple[Name, ...] = ()
    volumes: Mappings = ()
    volume_mounts: Mappings = ()
    allow_host_path: Annotated[bool, Strict()] = False
    service_account_annotations: Mapping[str, str] = field(default_factory=dict)
    allowed_service_accounts: frozenset[AccountPlace] = frozenset()
    table_owners: Mapping[str, tuple[Name, ...]] = field(default_factory=dict)
    account: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Mappings = ()
    topology_spread: Mappings = ()
    affinity: Mapping[str, Any] = field(default_factory=dict)
    priority_class_name: Name | None = None
    allowed_priority_classes: frozenset[Name] = frozenset()
    allowed_toleration_keys: frozenset[str] = frozenset()
    scheduler_name: Name | None = None
    runtime_class_name: Name | None = None
    ephemeral_storage: Annotated[str, Field(pattern=r"^[0-9]+(Mi|Gi|Ti)$")] | None = None
    master: Annotated[str, Field(pattern=r"^k8s://https?://")] = "k8s://https://kubernetes.default.svc:443"
    network_policy: NetworkPolicy = NetworkPolicy()


OF_RESOURCE: Final = ("account", "affinity", "envSecretKeys", "topologySpread")
"""What the settings of one resource have besides, in the words of a file, which cannot say it for all."""
