"""From the resource to its catalogs: reports know each by its label."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketingest.catalog.targets import targets
from bucketingest.spec.fields.catalogs import Catalog
from bucketingest.spec.reading.load import load_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "rate-to-local.yaml"
REST = {"type": "rest", "database": "lake", "uri": "https://a:8181"}


def labels(*catalogs: dict[str, object]) -> list[str]:
    resource = load_file(EXAMPLE)
    given = tuple(Catalog.model_validate(each) for each in catalogs)
    spec = resource.spec.model_copy(update={"catalogs": given})
    return [each.label for each in targets(resource.model_copy(update={"spec": spec}))]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"iceberg": REST}, {"iceberg": REST | {"uri": "https://b:8181"}}),
        ({"iceberg": REST}, {"iceberg": REST | {"warehouse": "second"}}),
        ({"iceberg": REST}, {"iceberg": REST | {"name": "second"}}),
        (
            {"glue": {"region": "eu-west-1", "database": "lake"}},
            {"glue": {"region": "eu-west-1", "database": "lake", "catalogId": "123456789012"}},
        ),
    ],
)
def test_two_catalogs_have_two_labels(one: dict[str, object], other: dict[str, object]) -> None:
    assert len(set(labels(one, other))) == 2


def test_a_label_has_no_secret() -> None:
    entry = {"type": "sql", "database": "lake", "uri": "postgresql://db/lake?user=me&password=s3cr3t-word"}
    assert labels({"iceberg": entry}) == ["iceberg sql postgresql://db/lake?user=me&password=*** lake.rate_demo"]
