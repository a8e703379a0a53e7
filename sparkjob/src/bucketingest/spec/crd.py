"""Makes the CustomResourceDefinition from the spec model, so that the two cannot differ.

`python -m bucketingest.spec.crd` prints what is checked in as `crds/bucketingests.yaml`. Needs Kubernetes 1.29.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, Final

import yaml

from bucketingest.spec.fields.schema import inlined_schema
from bucketingest.spec.model import API_GROUP, API_VERSION, KIND, BucketIngest, BucketIngestSpec, Metadata
from bucketingest.spec.rules.cel_rules import add_rules
from bucketingest.spec.scalars import ALLOWED_KEY
from bucketingest.spec.status import Status

PLURAL: Final = "bucketingests"

_HEADER: Final = "# Made from the spec model by `python -m bucketingest.spec.crd`. Do not edit.\n"
_COLUMNS: Final = (
    ("Phase", "string", ".status.phase", "The state in one word."),
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether rows become visible as promised."),
    ("Last commit", "date", ".status.lastCommit.time", "Time since the last completed instant."),
    ("Lag", "date", ".status.lag.since", "For how long input waits to be committed, or may wait if nobody knows."),
    ("Log age", "date", ".status.services.oldestLogAt", "Age of the oldest log file that is not compacted."),
    ("Attempt", "integer", ".status.attempt", "Number of the newest attempt."),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the resource was created."),
)
_WIDE: Final = (
    ("Tables", "integer", ".status.tables.known", "Tables of a resource with many."),
    ("Parked", "integer", ".status.tables.parked", "Those of them that an error keeps from being written."),
)
"""Columns of `kubectl get -o wide`."""

_SCALE: Final = {
    "specReplicasPath": ".spec.spark.executor.instances",
    "statusReplicasPath": ".status.executors",
    "labelSelectorPath": ".status.executorSelector",
}


def custom_resource_definition() -> dict[str, Any]:
    """The CustomResourceDefinition as Kubernetes takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{API_GROUP}"},
        "spec": {
            "group": API_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["bi"],
                # Not `all`: `kubectl delete all --all` would delete every pipeline.
                "categories": [KIND.lower()],
            },
            "versions": [
                {
                    "name": API_VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, "scale": _SCALE},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path, "description": description, **extra}
                        for columns, extra in ((_COLUMNS, {}), (_WIDE, {"priority": 1}))
                        for name, kind, path, description in columns
                    ],
                    "schema": {"openAPIV3Schema": _resource_schema()},
                }
            ],
        },
    }


def to_yaml() -> str:
    """The CustomResourceDefinition as the text of the checked-in file."""
    return _HEADER + yaml.dump(
        custom_resource_definition(), Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=120
    )


def _resource_schema() -> dict[str, Any]:
    spec = copy.deepcopy(inlined_schema(BucketIngestSpec))
    add_rules(spec)
    description = inlined_schema(BucketIngest)["description"]
    name = inlined_schema(Metadata)["properties"]["name"]
    return {
        "type": "object",
        "description": description,
        "required": ["metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # Of metadata a CRD may restrict the name, and must not say more.
            "metadata": {
                "type": "object",
                "properties": {"name": {key: name[key] for key in ("type", "pattern", "maxLength")}},
            },
            "spec": _as_kubernetes({**spec, "description": "What is wanted."}),
            "status": _as_kubernetes(copy.deepcopy(inlined_schema(Status))),
        },
    }


def _as_kubernetes(node: dict[str, Any]) -> dict[str, Any]:
    """The schema without what only messages need, and with the widths of numbers."""
    node.pop(ALLOWED_KEY, None)
    if node.get("type") == "integer":
        node["format"] = "int64"
    for part in node.get("properties", {}).values():
        _as_kubernetes(part)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            _as_kubernetes(node[key])
    return node


class _PlainDumper(yaml.SafeDumper):
    """Writes everything out, without anchors."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


if __name__ == "__main__":
    sys.stdout.write(to_yaml())
