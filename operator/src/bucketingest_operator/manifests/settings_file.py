"""Reads JobSettings from a YAML file, in the form of the chart's values, and reports all its problems."""

from __future__ import annotations

import difflib
import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.problems import field_name
from bucketingest.spec.quantity import parse_duration
from bucketingest.spec.reading.yaml_documents import Document, read_documents
from bucketingest_operator.manifests.attempt_objects import RESERVED_LABELS
from bucketingest_operator.manifests.pod_specs import RESERVED_MOUNTS, RESERVED_VOLUMES
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.manifests.spark_ports import SECRET_VARIABLE

_NAME: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
Name = Annotated[str, Field(pattern=_NAME, max_length=253)]
AccountPlace = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""`namespace/name`"""
Texts = dict[str, str]
Mappings = tuple[dict[str, Any], ...]


def _duration(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a duration such as 60s or 5m")  # noqa: TRY004 - pydantic reports it as a problem
    return parse_duration(value)


class _NetworkPolicy(BaseModel):
    """The NetworkPolicies of pipelines."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)

    enabled: bool = True
    metrics_from: Annotated[Mappings, Field(strict=False)] = ()  # type: ignore[pydantic-alias]


class _File(BaseModel):
    """The file's fields; JobSettings explains them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)

    image: Annotated[str, Field(min_length=1)] = JobSettings().image
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    grace: Annotated[timedelta, BeforeValidator(_duration), Field(ge=timedelta(seconds=1))] = timedelta(seconds=60)
    run_as_user: Annotated[int, Field(ge=1)] | None = None
    env: Texts = {}
    env_from_secrets: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    volumes: Annotated[Mappings, Field(strict=False)] = ()
    volume_mounts: Annotated[Mappings, Field(strict=False)] = ()
    allow_host_path: bool = False
    service_account_annotations: Texts = {}
    allowed_service_accounts: Annotated[tuple[AccountPlace, ...], Field(strict=False)] = ()
    table_owners: dict[str, Annotated[tuple[Name, ...], Field(strict=False)]] = {}
    pod_labels: Texts = {}
    pod_annotations: Texts = {}
    node_selector: Texts = {}
    tolerations: Annotated[Mappings, Field(strict=False)] = ()
    priority_class_name: Name | None = None
    allowed_priority_classes: Annotated[tuple[Name, ...], Field(strict=False)] = ()
    allowed_toleration_keys: Annotated[tuple[str, ...], Field(strict=False)] = ()
    scheduler_name: Name | None = None
    runtime_class_name: Name | None = None
    ephemeral_storage: Annotated[str, Field(pattern=r"^[0-9]+(Mi|Gi|Ti)$")] | None = None
    master: Annotated[str, Field(pattern=r"^k8s://https?://")] = "k8s://https://kubernetes.default.svc:443"
    network_policy: _NetworkPolicy = _NetworkPolicy()
    cluster_domain: Annotated[str, Field(pattern=r"^svc(\.[a-z0-9.-]+)?$")] = "svc"  # type: ignore[pydantic-alias]


def load_settings(path: str | os.PathLike[str]) -> JobSettings:
    """The settings of a file. An empty file has the defaults.

    Raises:
        SpecError: The file cannot be read or is wrong: all problems, with their lines.
    """
    source = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Problem("", f"cannot be read: {error}")], source) from error
    return parse_settings(text, source)


def parse_settings(text: str, source: str = "") -> JobSettings:
    """As `load_settings`, of a text."""
    documents = read_documents(text, source)
    if not documents:
        return JobSettings()
    document = documents[0]
    if len(documents) > 1 or not isinstance(document.content, dict):
        raise SpecError([Problem("", "is not one mapping of settings")], source)
    problems = list(document.problems)
    content = {name: value for name, value in document.content.items() if value is not None}
    try:
        parsed = _File.model_validate(content)
    except ValidationError as error:
        problems += [_problem(each, document) for each in error.errors(include_url=False)]
        raise SpecError(problems, source) from None
    problems += _wrong_volumes(parsed)
    if SECRET_VARIABLE in parsed.env:
        what = "would replace the secret of Spark's ports, and pods show it"
        problems.append(Problem(f"env.{SECRET_VARIABLE}", what, "no such variable: the operator makes the secret"))
    if problems:
        raise SpecError(problems, source)
    return _settings(parsed)


def _settings(parsed: _File) -> JobSettings:
    return JobSettings(
        image=parsed.image,
        pull_policy=parsed.image_pull_policy,
        pull_secrets=parsed.image_pull_secrets,
        grace=parsed.grace,
        run_as_user=parsed.run_as_user,
        env=parsed.env,
        env_from_secrets=parsed.env_from_secrets,
        volumes=parsed.volumes,
        volume_mounts=parsed.volume_mounts,
        service_account_annotations=parsed.service_account_annotations,
        allowed_accounts=frozenset(parsed.allowed_service_accounts),
        table_owners=parsed.table_owners,
        pod_labels=parsed.pod_labels,
        pod_annotations=parsed.pod_annotations,
        node_selector=parsed.node_selector,
        tolerations=parsed.tolerations,
        priority_class=parsed.priority_class_name,
        allowed_priority_classes=frozenset(parsed.allowed_priority_classes),
        allowed_toleration_keys=frozenset(parsed.allowed_toleration_keys),
        scheduler=parsed.scheduler_name,
        runtime_class=parsed.runtime_class_name,
        ephemeral_storage=parsed.ephemeral_storage,
        master=parsed.master,
        cluster_domain=parsed.cluster_domain,
        network_policy=parsed.network_policy.enabled,
        metrics_from=parsed.network_policy.metrics_from,
    )


def _wrong_volumes(parsed: _File) -> list[Problem]:
    """Checks beyond a schema: reserved names, mounts without a volume, folders of a node, the operator's labels."""
    problems = []
    names = set()
    for index, volume in enumerate(parsed.volumes):
        where, name = f"volumes[{index}]", volume.get("name")
        if not isinstance(name, str) or not name:
            problems.append(Problem(f"{where}.name", "is required"))
        elif name in names or name in RESERVED_VOLUMES:
            problems.append(Problem(f"{where}.name", f"is {name!r}, which is taken"))
        if "hostPath" in volume and not parsed.allow_host_path:
            problems.append(Problem(f"{where}.hostPath", "gives pods a folder of their node", "set allowHostPath"))
        names.add(name)
    for index, mount in enumerate(parsed.volume_mounts):
        where, path = f"volumeMounts[{index}]", mount.get("mountPath")
        if mount.get("name") not in names:
            problems.append(Problem(f"{where}.name", f"is {mount.get('name')!r}", "the name of one of volumes"))
        if not isinstance(path, str) or not path.startswith("/"):
            problems.append(Problem(f"{where}.mountPath", "is required", "an absolute path"))
        elif any(path.rstrip("/") == taken or path.startswith(f"{taken}/") for taken in RESERVED_MOUNTS):
            problems.append(Problem(f"{where}.mountPath", f"is {path!r}, which the job uses itself"))
    taken_labels = sorted(set(parsed.pod_labels) & RESERVED_LABELS)
    return problems + [Problem(f'podLabels["{label}"]', "is set by the operator") for label in taken_labels]


def _problem(error: Any, document: Document) -> Problem:
    location = tuple(error["loc"])
    wrong = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden" and len(location) == 1:
        known = [to_camel(name) for name in _File.model_fields]
        near = difflib.get_close_matches(str(location[0]), known, n=1)
        wrong = "is not a setting" + (f" (did you mean {near[0]}?)" if near else "")
        return Problem(field_name(location), wrong, ", ".join(known), document.line_of(location))
    return Problem(field_name(location), wrong[:1].lower() + wrong[1:], "", document.line_of(location))
