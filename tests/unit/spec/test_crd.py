import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bucketingest.spec.crd import custom_resource_definition, to_yaml

CHECKED_IN = Path(__file__).parents[3] / "crds" / "bucketingests.yaml"
IN_CHART = Path(__file__).parents[3] / "charts" / "bucketingest" / "files" / "bucketingests.yaml"
Node = dict[str, Any]


@pytest.fixture
def schema() -> Node:
    (version,) = custom_resource_definition()["spec"]["versions"]
    root: Node = version["schema"]["openAPIV3Schema"]
    return root


def nodes(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every node of a schema with its path."""
    yield path, node
    for name, part in node.get("properties", {}).items():
        yield from nodes(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}[]")


def rules(schema: Node, path: str) -> list[str]:
    (node,) = (node for each, node in nodes(schema) if each == path)
    return [rule["rule"] for rule in node.get("x-kubernetes-validations", [])]


def test_what_is_checked_in_is_what_the_model_makes() -> None:
    assert CHECKED_IN.read_text() == to_yaml(), "run: make crds"
    assert IN_CHART.read_text() == to_yaml(), "run: make crds"
    assert yaml.safe_load(CHECKED_IN.read_text()) == custom_resource_definition()


def test_the_name_columns_and_status_are_what_users_expect() -> None:
    crd = custom_resource_definition()
    (version,) = crd["spec"]["versions"]
    assert crd["metadata"]["name"] == "bucketingests.bucketingest.dev"
    assert crd["spec"]["names"]["shortNames"] == ["bi"]
    assert crd["spec"]["names"]["categories"] == ["bucketingest"], "kubectl delete all --all must delete none"
    assert version["subresources"].keys() == {"status", "scale"}
    assert [column["name"] for column in version["additionalPrinterColumns"]] == [
        "Phase", "Ready", "Last commit", "Lag", "Log age", "Attempt", "Age", "Tables", "Parked",
    ]  # fmt: skip


def test_the_schema_is_structural(schema: Node) -> None:
    known = {
        "type", "format", "description", "default", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength",
        "minItems", "maxItems", "maxProperties", "required", "properties", "items", "additionalProperties",
        "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    }  # fmt: skip
    for path, node in nodes(schema):
        assert node["type"] in {"object", "array", "string", "integer", "number", "boolean"}, path
        assert set(node) <= known, f"{path} has {set(node) - known}"
        assert not {"properties", "additionalProperties"} <= set(node), path
        assert ("items" in node) == (node["type"] == "array"), path
        assert set(node.get("required", ())) <= set(node.get("properties", ())), path
        if node["type"] == "object" and path != ".metadata":
            assert "properties" in node or "additionalProperties" in node, f"{path} would lose its fields"
    assert set(schema["properties"]["metadata"]["properties"]) <= {"name", "generateName"}


def test_everything_a_user_writes_is_bounded(schema: Node) -> None:
    for path, node in nodes(schema["properties"]["spec"], ".spec"):
        bounds: dict[str, set[str]] = {
            "string": {"maxLength"} if "enum" not in node else set(),
            "integer": {"minimum", "maximum"} if "enum" not in node else set(),
            "array": {"maxItems"},
            "object": {"maxProperties"} if "additionalProperties" in node else set(),
            "boolean": set(),
        }
        assert bounds[node["type"]] <= set(node), path


def test_defaults_are_values_that_the_schema_allows(schema: Node) -> None:
    for path, node in nodes(schema):
        if "default" in node:
            assert_allowed(node, node["default"], path)


def assert_allowed(node: Node, value: Any, path: str) -> None:
    kinds: dict[str, type] = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    matches = type(value) is kinds[node["type"]]
    assert matches, path  # apart, for mypy would narrow the value to object
    assert value in node.get("enum", [value]), path
    assert re.search(node.get("pattern", ""), str(value)), path
    if node["type"] == "object":
        assert set(node.get("required", ())) <= set(value), path
        for name, part in value.items():
            assert_allowed(node["properties"][name], part, f"{path}.{name}")
        # The API server checks CEL rules on a default before it fills in the defaults inside.
        assert {name for name, part in node.get("properties", {}).items() if "default" in part} <= set(value), path


def test_durations_and_memory_are_text_with_defaults_as_users_write_them(schema: Node) -> None:
    spec = schema["properties"]["spec"]["properties"]
    assert spec["commit"]["default"] == {
        "mode": "interval",
        "interval": "30s",
        "trigger": "2s",
        "maxFiles": 100_000,
        "at": "any",
        "transactionWait": "10m",
        "maxRetries": 5,
    }
    assert spec["table"]["properties"]["memoryPerTask"]["default"] == "256Mi"
    assert spec["health"]["properties"]["maxCommitLag"]["default"] == "5m"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (".spec.table", ["path", "partitionBy", "hiveStylePartitioning", "version"]),
        (".spec.table.index", ["type", "buckets", "hash"]),
    ],
)
def test_what_decides_where_rows_lie_is_immutable(schema: Node, path: str, names: list[str]) -> None:
    assert {f"self.{name} == oldSelf.{name}" for name in names} <= set(rules(schema, path))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".spec.table", "name"),
        (".spec.table", "recordKey"),
        (".spec.table", "orderingField"),
        (".spec.table.index", "hashFields"),
    ],
)
def test_optional_immutable_fields_can_neither_be_added_nor_removed_later(schema: Node, path: str, name: str) -> None:
    assert f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})" in rules(
        schema, path
    )


def test_objects_with_transition_rules_cannot_be_taken_away_to_escape_them(schema: Node) -> None:
    assert "spec" in schema["required"]
    assert "table" in schema["properties"]["spec"]["required"]
    assert "default" in schema["properties"]["spec"]["properties"]["table"]["properties"]["index"]


def test_every_rule_has_a_message_and_blames_a_field_that_exists(schema: Node) -> None:
    paths = {path for path, _ in nodes(schema)}
    for path, node in nodes(schema):
        for rule in node.get("x-kubernetes-validations", ()):
            assert rule["message"], f"{path}: {rule['rule']}"
            assert "\n" not in rule["message"] + rule["rule"]
            assert f"{path}{rule.get('fieldPath', '')}" in paths


def test_status_lists_are_bounded_and_conditions_are_keyed_by_type(schema: Node) -> None:
    status = schema["properties"]["status"]["properties"]
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    assert "type" in status["conditions"]["items"]["required"]
    assert status["attempts"]["maxItems"] == 10
