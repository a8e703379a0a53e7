"""What we want registered is what Hudi's own tool has registered of the same tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bucketingest.catalog.errors import CatalogRefused
from bucketingest.catalog.sync import HudiTarget
from bucketingest.catalog.table_state import TableState
from bucketingest.catalog.wanted import TableFacts, partition_values, wanted_tables
from bucketingest.storage import open_storage
from support.catalogs.memory import MemoryCatalog
from support.catalogs.record import RECORDED
from support.catalogs.tables import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_we_want_registered_what_hudis_tool_has_registered(name: str, tmp_path: Path) -> None:
    TABLES[name].write(tmp_path)
    storage, catalog = open_storage(str(tmp_path)), MemoryCatalog()
    state = TableState.read(storage)
    assert state is not None
    HudiTarget("", catalog.opened(), name, "all").sync(storage, state)

    assert set(catalog.tables) == {name, f"{name}_rt", f"{name}_ro"}
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    for each in catalog.tables:
        assert _shown(catalog, each, str(tmp_path)) == _of_record(recorded[each])


def _shown(catalog: MemoryCatalog, name: str, base: str) -> dict[str, Any]:
    table = catalog.tables[name]
    parameters = {key: "TIME" if key.startswith("last_commit_") else text for key, text in table.parameters.items()}
    return {
        "keys": [[each.name, each.type, each.comment] for each in table.partition_keys],
        "columns": [[each.name, each.type, each.comment] for each in table.columns],
        "parameters": parameters,
        "serde": {key: text.replace(base, "BASE") for key, text in table.serde_parameters.items()},
        "formats": table.input_format,
        "location": table.location.replace(base, "BASE"),
        "partitions": {"/".join(v): where.replace(base, "BASE") for v, where in catalog.partitions_of[name].items()},
    }


def _of_record(record: dict[str, Any]) -> dict[str, Any]:
    storage = record["storage"]
    return {
        "keys": record["keys"],
        "columns": storage["columns"],
        "parameters": record["parameters"],
        "serde": storage["serde"]["parameters"],
        "formats": storage["inputFormat"],
        "location": storage["location"],
        "partitions": {values: each["storage"]["location"] for values, each in record["partitions"].items()},
    }


def test_one_name_alone_is_the_snapshot_or_the_base_files() -> None:
    facts = TableFacts("s3://lake/t", {"type": "record", "fields": [{"name": "id", "type": "string"}]})
    (snapshot,) = wanted_tables(facts, "t", "snapshot")
    (base_files,) = wanted_tables(facts, "t", "readOptimized")
    assert [each.serde_parameters["hoodie.query.as.ro.table"] for each in (snapshot, base_files)] == ["false", "true"]
    assert "realtime" in snapshot.input_format
    assert "realtime" not in base_files.input_format


def test_a_comment_is_the_doc_of_the_column_as_far_as_catalogs_take_it() -> None:
    docs = ["the key", "of two\n  lines", "long " * 100]
    fields = [{"name": f"c{number}", "type": "string", "doc": doc} for number, doc in enumerate(docs)]
    (table,) = wanted_tables(TableFacts("s3://lake/t", {"type": "record", "fields": fields}), "t", "snapshot")
    assert [each.comment for each in table.columns[-3:]] == ["the key", "of two lines", ("long " * 100)[:255]]


def test_a_long_schema_is_cut_into_parameters_that_a_metastore_can_hold() -> None:
    fields = [{"name": f"a_column_with_a_long_name_{n}", "type": ["null", "string"]} for n in range(100)]
    (table,) = wanted_tables(TableFacts("s3://lake/t", {"type": "record", "fields": fields}), "t", "snapshot")
    parts = int(table.parameters["spark.sql.sources.schema.numParts"])
    texts = [table.parameters[f"spark.sql.sources.schema.part.{number}"] for number in range(parts)]
    assert max(map(len, texts)) == 4000
    assert len(json.loads("".join(texts))["fields"]) == 105


@pytest.mark.parametrize(
    ("path", "fields", "values"),
    [
        ("north", ("region",), ("north",)),
        ("region=north", ("region",), ("north",)),
        ("2026/01/02", ("day",), ("2026/01/02",)),
        ("region=a=b/day=2026-01-02", ("region", "day"), ("a=b", "2026-01-02")),
        ("north/2", ("region", "shard"), ("north", "2")),
    ],
)
def test_values_of_a_partition_path(path: str, fields: tuple[str, ...], values: tuple[str, ...]) -> None:
    assert partition_values(path, fields) == values


def test_an_encoded_path_has_the_decoded_value() -> None:
    assert partition_values("day=2026%2F01", ("day",), encoded=True) == ("2026/01",)


def test_a_path_with_other_levels_is_refused_by_name() -> None:
    with pytest.raises(CatalogRefused, match=r"north.*1 levels.*region, day"):
        partition_values("north", ("region", "day"))
