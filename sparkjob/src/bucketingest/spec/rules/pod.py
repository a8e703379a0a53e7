"""What must hold in the pod section beyond the schema of its fields: names that belong to others, one of several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bucketingest.spec.reading.view import View
from bucketingest.spec.rules.finding import Finding, Rules, exactly_one, mappings

_OWNERS: Final = ("kubernetes.io", "k8s.io", "bucketingest.dev")
_SHARED: Final = frozenset(
    {
        "app.kubernetes.io/component",
        "app.kubernetes.io/part-of",
        "app.kubernetes.io/version",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "kubectl.kubernetes.io/default-container",
        "kubernetes.io/egress-bandwidth",
        "kubernetes.io/ingress-bandwidth",
    }
)
"""Names of Kubernetes that are for users, and give a pod no right."""
_KEY: Final = re.compile(
    r"(?:(?P<domain>[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_VARIABLES: Final = (
    "BUCKETINGEST_",
    "SPARK_",
    "_SPARK_",
    "PYSPARK_",
    "KUBERNETES_",
    "MASTER",
    "LD_",
    "PYTHON",
    "JAVA_HOME",
)
"""Environment variables that start so belong to Spark, Kubernetes, the job or the image."""
VALUES: Final = ("value", "secretKeyRef")
VOLUMES: Final = ("secret", "configMap", "persistentVolumeClaim")


def wrong_names(view: View) -> Iterator[Finding]:
    """Labels, annotations and node labels that Kubernetes would refuse, and those that belong to others."""
    for field in ("labels", "annotations", "nodeSelector"):
        for name, value in (view.mapping(f"pod.{field}") or {}).items():
            place = ("pod", field, name)
            match = _KEY.fullmatch(name)
            if match is None:
                yield place, "is no name of Kubernetes", "such as team or example.com/team"
            elif field != "nodeSelector" and _belongs_to_others(name, match["domain"] or ""):
                yield place, "cannot be set here: it belongs to Kubernetes, Spark or bucketingest", ""
            if field != "annotations" and isinstance(value, str) and not _LABEL_VALUE.fullmatch(value):
                yield place, f"is {value!r}", "at most 63 letters, digits, '-', '_' and '.'"


def wrong_variables(view: View) -> Iterator[Finding]:
    """Environment variables of others, those named twice, and those without exactly one value."""
    seen: set[str] = set()
    for position, variable in mappings(view, "pod.env"):
        name, place = variable.get("name"), ("pod", "env", position)
        if isinstance(name, str):
            if name.startswith(_VARIABLES):
                yield (*place, "name"), f"is {name}, which belongs to Spark, Kubernetes or the job", ""
            if name in seen:
                yield (*place, "name"), f"names {name} a second time", "each name once"
            seen.add(name)
        yield from exactly_one(variable, place, VALUES)


def wrong_volumes(view: View) -> Iterator[Finding]:
    """Volumes without exactly one source, and names and folders that are used twice."""
    names: set[str] = set()
    folders: list[str] = []
    for position, volume in mappings(view, "pod.volumes"):
        place = ("pod", "volumes", position)
        yield from exactly_one(volume, place, VOLUMES)
        name, folder = volume.get("name"), volume.get("mountPath")
        if isinstance(name, str):
            if name in names:
                yield (*place, "name"), f"names {name} a second time", "each name once"
            names.add(name)
        if isinstance(folder, str):
            taken = [
                each for each in folders if f"{folder}/".startswith(f"{each}/") or f"{each}/".startswith(f"{folder}/")
            ]
            if taken:
                yield (*place, "mountPath"), f"is {folder}, and {taken[0]} is mounted too", "folders apart"
            folders.append(folder)


def wrong_tolerations(view: View) -> Iterator[Finding]:
    """Tolerations that Kubernetes would refuse."""
    for position, each in mappings(view, "pod.tolerations"):
        place = ("pod", "tolerations", position)
        if each.get("operator") == "Exists" and each.get("value") is not None:
            yield (*place, "value"), "is not allowed with operator Exists", ""
        if each.get("operator", "Equal") == "Equal" and each.get("key") is None:
            yield (*place, "key"), "is required for operator Equal", "a key, or operator Exists for every taint"
        if each.get("tolerationSeconds") is not None and each.get("effect") != "NoExecute":
            yield (*place, "tolerationSeconds"), "is for effect NoExecute only", ""


RULES: Final[Rules] = (wrong_names, wrong_variables, wrong_volumes, wrong_tolerations)


def _belongs_to_others(name: str, domain: str) -> bool:
    if name in _SHARED:
        return False
    return name.startswith("spark-") or any(domain == owner or domain.endswith(f".{owner}") for owner in _OWNERS)
