"""What a user may choose about the pods of a pipeline: a closed list, so that nothing of a pod's security is in it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.kubernetes import ObjectName, SecretKey
from bucketingest.spec.scalars import ALLOWED_KEY, Flag, OptionValue, SmallText, Whole, cores_text

MOUNT_ROOT: Final = "/mnt/"
"""Volumes of a user are mounted below it, and nothing else is."""
_VOLUME_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_MOUNT_PATH: Final = r"^/mnt(/[A-Za-z0-9][A-Za-z0-9._-]*)+$"
_VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"


class Toleration(SpecModel):
    """A taint of nodes that the pods tolerate."""

    key: SmallText | None = Field(default=None, description="Key of the taint; every key when absent.")
    operator: Literal["Equal", "Exists"] = Field(default="Equal", description="How key and value are compared.")
    value: OptionValue | None = Field(default=None, description="Value of the taint, for operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint; every effect when absent."
    )
    toleration_seconds: Whole | None = Field(
        default=None, description="How long a pod stays on a node with a NoExecute taint.", ge=0, le=86_400
    )


class TopologySpread(SpecModel):
    """Spreads the pods of the pipeline over nodes or zones. The selector is the operator's: the pipeline's own pods."""

    topology_key: SmallText = Field(
        description="Label of nodes that names the place, such as topology.kubernetes.io/zone."
    )
    max_skew: Whole = Field(default=1, description="Most pods that a place may have more than another.", ge=1, le=1000)
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = Field(
        default="ScheduleAnyway", description="What happens to a pod that fits nowhere."
    )


class LabelExpression(SpecModel):
    """A condition on one label."""

    key: SmallText = Field(description="Name of the label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="What must hold for its value.")
    values: tuple[OptionValue, ...] = Field(default=(), description="Values, for In and NotIn.", max_length=32)


class NodeTerm(SpecModel):
    """Nodes whose labels meet all conditions."""

    match_expressions: tuple[LabelExpression, ...] = Field(description="Conditions.", min_length=1, max_length=16)


class NodeTerms(SpecModel):
    """Nodes of at least one term."""

    node_selector_terms: tuple[NodeTerm, ...] = Field(description="Terms.", min_length=1, max_length=8)


class PreferredNodes(SpecModel):
    """Nodes that are preferred."""

    weight: Whole = Field(description="How much they are preferred.", ge=1, le=100)
    preference: NodeTerm = Field(description="Which nodes.")


class NodeAffinity(SpecModel):
    """Nodes that the pods need or prefer."""

    required: NodeTerms | None = Field(
        default=None, alias="requiredDuringSchedulingIgnoredDuringExecution", description="Other nodes are not taken."
    )
    preferred: tuple[PreferredNodes, ...] = Field(
        default=(),
        alias="preferredDuringSchedulingIgnoredDuringExecution",
        description="Nodes that are taken if possible.",
        max_length=8,
    )


class PodSelector(SpecModel):
    """Pods of the namespace whose labels meet all conditions."""

    match_labels: dict[str, OptionValue] = Field(default={}, description="Labels with their values.", max_length=16)
    match_expressions: tuple[LabelExpression, ...] = Field(default=(), description="Conditions.", max_length=16)


class PodTerm(SpecModel):
    """A place, by the pods of the namespace that run there."""

    label_selector: PodSelector = Field(description="Which pods.")
    topology_key: SmallText = Field(description="Label of nodes that names the place, such as kubernetes.io/hostname.")


class PreferredPods(SpecModel):
    """A place that is preferred."""

    weight: Whole = Field(description="How much it is preferred.", ge=1, le=100)
    pod_affinity_term: PodTerm = Field(description="Which place.")


class PodAffinity(SpecModel):
    """Places that the pods need or prefer, or avoid."""

    required: tuple[PodTerm, ...] = Field(
        default=(),
        alias="requiredDuringSchedulingIgnoredDuringExecution",
        description="What must hold.",
        max_length=8,
    )
    preferred: tuple[PreferredPods, ...] = Field(
        default=(),
        alias="preferredDuringSchedulingIgnoredDuringExecution",
        description="What holds if possible.",
        max_length=8,
    )


class Affinity(SpecModel):
    """Where the pods run, in the words of Kubernetes."""

    node_affinity: NodeAffinity | None = Field(default=None, description="By labels of nodes.")
    pod_affinity: PodAffinity | None = Field(default=None, description="Near other pods.")
    pod_anti_affinity: PodAffinity | None = Field(default=None, description="Apart from other pods.")


class EnvVariable(SpecModel):
    """An environment variable: of exactly one of value and secretKeyRef."""

    name: SmallText = Field(
        description="Its name. Those of Spark, Kubernetes and the job itself are refused.",
        pattern=_VARIABLE,
        json_schema_extra={ALLOWED_KEY: "letters, digits and _, not starting with a digit"},
    )
    value: OptionValue | None = Field(default=None, description="Its value. No secret: whoever reads pods sees it.")
    secret_key_ref: SecretKey | None = Field(
        default=None, description="Key of a Secret that has the value. A pod reads it once, at its start."
    )


class Volume(SpecModel):
    """Files for the pods: of exactly one of secret, configMap and persistentVolumeClaim."""

    name: str = Field(
        description="Its name.",
        min_length=1,
        max_length=50,
        pattern=_VOLUME_NAME,
        json_schema_extra={ALLOWED_KEY: "lower-case letters, digits and '-', at most 50 characters"},
    )
    mount_path: str = Field(
        description="Where it is mounted in all pods, such as /mnt/kafka-certs.",
        max_length=253,
        pattern=_MOUNT_PATH,
        json_schema_extra={ALLOWED_KEY: f"a folder below {MOUNT_ROOT}"},
    )
    read_only: Flag = Field(default=True, description="Whether the pods may only read it.")
    secret: ObjectName | None = Field(default=None, description="Name of a Secret; each key becomes a file.")
    config_map: ObjectName | None = Field(default=None, description="Name of a ConfigMap; each key becomes a file.")
    persistent_volume_claim: ObjectName | None = Field(
        default=None, description="Name of a claim, such as for tables at file paths."
    )


class Pod(SpecModel):
    """The pods of the pipeline (driver, executors, rollback, compaction), in addition to the settings of the operator.

    On one machine it has no effect.
    """

    labels: dict[str, OptionValue] = Field(
        default={},
        description="Labels of the pods. Those of Spark, bucketingest and Kubernetes are refused; of Kubernetes a few "
        "are for users, such as app.kubernetes.io/part-of.",
        max_length=64,
    )
    annotations: dict[str, OptionValue] = Field(
        default={},
        description="Annotations of the pods. Those of bucketingest and Kubernetes are refused; of Kubernetes a few "
        "are for users, such as cluster-autoscaler.kubernetes.io/safe-to-evict.",
        max_length=64,
    )
    node_selector: dict[str, OptionValue] = Field(
        default={}, description="Labels that a node must have to run the pods.", max_length=64
    )
    tolerations: tuple[Toleration, ...] = Field(
        default=(), description="Taints of nodes that the pods tolerate.", max_length=32
    )
    topology_spread: tuple[TopologySpread, ...] = Field(
        default=(), description="How the pods are spread over nodes and zones.", max_length=8
    )
    affinity: Affinity | None = Field(default=None, description="Nodes that the pods need, prefer or avoid.")
    cpu_limit: Annotated[int, cores_text("100m", "256")] | None = Field(
        default=None,
        description="CPU limit of each pod, or what it requests if that is more; no limit when absent. Some namespaces "
        "demand one.",
    )
    service_account_name: ObjectName | None = Field(
        default=None,
        description="ServiceAccount of the pods, one that the operator's settings allow for the namespace. It gets the "
        "right to create pods there, as Spark's driver needs it. When absent, the operator makes one.",
    )
    priority_class_name: ObjectName | None = Field(
        default=None, description="Their PriorityClass; else that of the operator's settings."
    )
    image_pull_secrets: tuple[ObjectName, ...] = Field(
        default=(),
        description="Names of Secrets for pulling spark.image, in the namespace of the BucketIngest.",
        max_length=16,
    )
    env: tuple[EnvVariable, ...] = Field(
        default=(), description="Environment variables of all containers, such as a region.", max_length=64
    )
    volumes: tuple[Volume, ...] = Field(default=(), description="Files for all containers.", max_length=16)
