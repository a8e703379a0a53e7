"""The objects of an attempt, as plain dictionaries: configuration, account, rights, pods."""

from __future__ import annotations

from typing import Any, Final

import yaml

from bucketingest.spec.model import API_GROUP, API_VERSION, KIND, BucketIngest
from bucketingest_operator.manifests.attempt_input import input_annotations
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.manifests.pod_section import settings_of_pod
from bucketingest_operator.manifests.pod_specs import (
    HTTP_PORT,
    SPARK_DEFAULTS_FILE,
    SPEC_ANNOTATION,
    SPEC_FILE,
    account_of,
    driver_pod_spec,
    executor_resources,
    executor_template,
    preflight_pod_spec,
    rollback_pod_spec,
)
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.manifests.spark_conf import TEMPLATE_FILE, spark_defaults
from bucketingest_operator.manifests.spark_ports import policy_spec, secret_data
from bucketingest_operator.observation import AttemptInput, CheckRole

Manifest = dict[str, Any]

UID_LABEL: Final = f"{API_GROUP}/uid"
ATTEMPT_LABEL: Final = f"{API_GROUP}/attempt"
ROLE_LABEL: Final = f"{API_GROUP}/role"
RPC_PART: Final = f"{API_GROUP}/rpc-part"
"""Annotation of an attempt's ConfigMap: the random part of its Secret's name, for an operator that resumes a start."""

CHECK_DIGESTS: Final[dict[CheckRole, str]] = {
    "preflight": f"{API_GROUP}/preflight-digest",
    "audit": f"{API_GROUP}/audit-digest",
}
"""Annotations of Jobs that check: the hash of the spec, or of its section `audit`."""

RESERVED_LABELS: Final = frozenset(
    {
        "app.kubernetes.io/instance",
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/name",
        ATTEMPT_LABEL,
        ROLE_LABEL,
        UID_LABEL,
    }
)
"""Labels by which the operator finds the owner of an object: settings cannot set them."""
MANAGED: Final = "app.kubernetes.io/managed-by=bucketingest-operator"
"""Selects everything that the operator makes, and executors."""

ROLLBACK_RETRIES: Final = 4
ROLLBACK_DEADLINE_SECONDS: Final = 900
ROLLBACK_KEPT_SECONDS: Final = 86_400
PREFLIGHT_DEADLINE_SECONDS: Final = 300
PREFLIGHT_KEPT_SECONDS: Final = 3600
DRAINED_NODE: Final = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
"""Rule of a Job: a drained node is no failure."""


class Manifests:
    """Makes the objects of one resource. Equal arguments make equal objects.

    `part`: of the name of an attempt's Secret.
    """

    def __init__(
        self, wanted: BucketIngest, namespace: str, uid: str, settings: JobSettings, part: str = "example"
    ) -> None:
        self.wanted = wanted
        self.namespace = namespace
        self.uid = uid
        self.settings = settings_of_pod(settings, wanted.spec.pod, {UID_LABEL: uid})
        self.names = Names(wanted.metadata.name, uid)
        self._part = part
        self._rpc_secret = self.names.rpc_secret(part)

    @property
    def account_name(self) -> str:
        """ServiceAccount of the pods."""
        return account_of(self.names, self.settings)

    @property
    def allowed(self) -> bool:
        """Whether the settings allow the ServiceAccount that the resource names, if it names one."""
        named = self.settings.account
        return not named or f"{self.namespace}/{named}" in self.settings.allowed_service_accounts

    def identity(self) -> list[Manifest]:
        """The identity of driver, executors and Jobs: nothing if the resource names one that there is."""
        return [] if self.settings.account else [self.service_account()]

    def service_account(self) -> Manifest:
        """The identity that the operator makes."""
        manifest = self._object("v1", "ServiceAccount", self.names.base)
        manifest["metadata"]["annotations"] = dict(self.settings.service_account_annotations)
        return {**manifest, "automountServiceAccountToken": False}

    def role(self) -> Manifest:
        """What a driver needs for its executors: Spark creates, watches and deletes pods, nothing else. Without
        executors it has no right, and loses those of an earlier attempt.
        """
        verbs = ["create", "get", "list", "watch", "patch", "delete", "deletecollection"]
        alone = self.wanted.spec.spark.is_driver_only
        rules = [] if alone else [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
        return {**self._object("rbac.authorization.k8s.io/v1", "Role", self.names.base), "rules": rules}

    def role_binding(self) -> Manifest:
        """Gives the role to the account."""
        return {
            **self._object("rbac.authorization.k8s.io/v1", "RoleBinding", self.names.base),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": self.names.base},
            "subjects": [{"kind": "ServiceAccount", "name": self.account_name, "namespace": self.namespace}],
        }

    def rpc_secret(self, secret: str, config_map: Manifest) -> Manifest:
        """The Secret by which an attempt's driver and executors know each other. It goes with that ConfigMap."""
        manifest = self._object("v1", "Secret", self._rpc_secret)
        metadata = config_map["metadata"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}
        manifest["metadata"]["ownerReferences"] = [owner]
        return {**manifest, "type": "Opaque", "immutable": True, "data": secret_data(secret)}

    def network_policy(self) -> Manifest:
        """Lets only the pipeline's own pods connect to its pods, others only to the port of progress and metrics."""
        manifest = self._object("networking.k8s.io/v1", "NetworkPolicy", self.names.base)
        return {**manifest, "spec": policy_spec({UID_LABEL: self.uid}, HTTP_PORT, self.settings)}

    def config_map(self, number: int, attempt_input: AttemptInput) -> Manifest:
        """The job's whole configuration. It is immutable: a changed spec needs another attempt."""
        manifest = self._object("v1", "ConfigMap", self.names.attempt(number), number, "config")
        manifest["metadata"]["annotations"] = {**input_annotations(attempt_input), RPC_PART: self._part}
        template = executor_template(self.wanted, self.names, self.settings, self._rpc_secret)
        template["metadata"] = self._pod_metadata(number, "executor")
        conf = spark_defaults(
            self.wanted,
            self.settings,
            namespace=self.namespace,
            account=self.account_name,
            driver_pod=self.names.driver(number),
            executor_prefix=self.names.attempt(number),
        )
        data = {
            SPEC_FILE: self._spec(),
            SPARK_DEFAULTS_FILE: "".join(f"{name} {value}\n" for name, value in sorted(conf.items())),
            TEMPLATE_FILE: yaml.safe_dump(template, sort_keys=False),
        }
        return {**manifest, "immutable": True, "data": data}

    def driver_pod(self, number: int, attempt_input: AttemptInput, ended: tuple[str, ...] = ()) -> Manifest:
        """The driver. It alone owns its executors, so that Kubernetes deletes them with it."""
        manifest = self._object("v1", "Pod", self.names.driver(number), number, "driver")
        own = self._pod_metadata(number, "driver")
        annotations = {**own.get("annotations", {}), **input_annotations(attempt_input)}
        manifest["metadata"] = {**manifest["metadata"], **own, "annotations": annotations}
        spec = driver_pod_spec(self.wanted, self.names, number, self.settings, self._rpc_secret, ended=ended)
        return {**manifest, "spec": spec}

    def executor_example(self, number: int) -> Manifest:
        """An executor as Spark makes it, as far as limits and policies of a namespace see it."""
        manifest = executor_template(self.wanted, self.names, self.settings, self._rpc_secret)
        metadata = {"name": f"{self.names.attempt(number)}-probe", "namespace": self.namespace}
        manifest["metadata"] = {**metadata, **self._pod_metadata(number, "executor")}
        (container,) = manifest["spec"]["containers"]
        container["resources"] = executor_resources(self.wanted, self.settings)
        return manifest

    def rollback_job(self, number: int) -> Manifest:
        """The Job that rolls back the open instant after an attempt."""
        manifest = self._object("batch/v1", "Job", self.names.rollback(number), number, "rollback")
        template = {
            "metadata": self._pod_metadata(number, "rollback"),
            "spec": rollback_pod_spec(self.wanted, self.names, self.settings),
        }
        spec = {
            "backoffLimit": ROLLBACK_RETRIES,
            "activeDeadlineSeconds": ROLLBACK_DEADLINE_SECONDS,
            "ttlSecondsAfterFinished": ROLLBACK_KEPT_SECONDS,
            "template": template,
        }
        return {**manifest, "spec": spec}

    def preflight_job(self, number: int, digest: str) -> Manifest:
        """The Job that checks a changed spec while the attempt of this number runs. It is tried once: the operator
        repeats it.
        """
        limits = {
            "activeDeadlineSeconds": PREFLIGHT_DEADLINE_SECONDS,
            "ttlSecondsAfterFinished": PREFLIGHT_KEPT_SECONDS,
        }
        pod_spec = preflight_pod_spec(self.wanted, self.names, self.settings)
        return self._check_job("preflight", number, digest, pod_spec, limits)

    def _check_job(
        self, role: CheckRole, number: int, digest: str, pod_spec: dict[str, Any], limits: dict[str, int]
    ) -> Manifest:
        name = self.names.audit if role == "audit" else self.names.preflight(digest)
        manifest = self._object("batch/v1", "Job", name, number, role)
        manifest["metadata"]["annotations"] = {CHECK_DIGESTS[role]: digest}
        template = {"metadata": self._pod_metadata(number, role, has_spec=True), "spec": pod_spec}
        rules = {"podFailurePolicy": {"rules": [DRAINED_NODE]}}
        return {**manifest, "spec": {"backoffLimit": 0, **limits, **rules, "template": template}}

    def _spec(self) -> str:
        """The spec as a file. Annotations may be large, and the job does not need them."""
        metadata = self.wanted.metadata.model_copy(update={"annotations": {}, "namespace": self.namespace})
        return self.wanted.model_copy(update={"metadata": metadata}).to_yaml()

    def _object(
        self, api_version: str, kind: str, name: str, number: int | None = None, role: str | None = None
    ) -> Manifest:
        owner = {
            "apiVersion": f"{API_GROUP}/{API_VERSION}",
            "kind": KIND,
            "name": self.wanted.metadata.name,
            "uid": self.uid,
            "controller": True,
            # A foreground deletion must not delete the driver's pod while it still commits.
            "blockOwnerDeletion": False,
        }
        metadata = {
            "name": name,
            "namespace": self.namespace,
            "labels": self._labels(number, role),
            "ownerReferences": [owner],
        }
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata}

    def _labels(self, number: int | None, role: str | None) -> dict[str, str]:
        labels = {
            "app.kubernetes.io/name": "bucketingest",
            "app.kubernetes.io/instance": self.wanted.metadata.name,
            "app.kubernetes.io/managed-by": "bucketingest-operator",
            UID_LABEL: self.uid,
        }
        return labels if number is None or role is None else {**labels, **self._selector(number, role)}

    def _pod_metadata(self, number: int | None, role: str | None, *, has_spec: bool = False) -> dict[str, Any]:
        """Labels and annotations of a pod: those of the settings, and the operator's, which win."""
        labels = {**self.settings.pod_labels, **self._labels(number, role)}
        annotations = {**self.settings.pod_annotations, **({SPEC_ANNOTATION: self._spec()} if has_spec else {})}
        return {"labels": labels, **({"annotations": annotations} if annotations else {})}

    def _selector(self, number: int, role: str) -> dict[str, str]:
        return {UID_LABEL: self.uid, ATTEMPT_LABEL: str(number), ROLE_LABEL: role}
