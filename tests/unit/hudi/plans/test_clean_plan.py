"""Plans and results of cleans: Hudi's own are read, and ours have the same content."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.plans.clean_plan import (
    BY_HOURS,
    BY_VERSIONS,
    SAVEPOINTS,
    CleanMetadata,
    CleanPlan,
    Earliest,
    read_clean_plan,
)
from bucketingest.hudi.timeline.ocf import read_record, schema_text, write_record
from bucketingest.storage import open_storage
from support.tables.fixtures import unpack_fixture

HUDIS = "20261121092006754"
COMPLETED = f"{HUDIS}_20261121092007377.clean"
PLAN = CleanPlan({"us": ("b", "a"), "eu": ("c",)}, Earliest("1", "commit"), "2", extra_metadata={SAVEPOINTS: "4,3"})


def absolute(path: str) -> str:
    return f"s3a://bucket/table/{path}"


@pytest.fixture
def hudis(tmp_path: Path) -> Path:
    return unpack_fixture("py_then_java_archived", tmp_path)


def test_hudis_plan_is_read(hudis: Path) -> None:
    plan = read_clean_plan(open_storage(str(hudis)), HUDIS)
    assert plan is not None
    assert plan.earliest == Earliest("20261121092005361", "commit")
    assert (plan.last_completed, plan.policy, plan.savepoints) == (
        "20261121092005943",
        "KEEP_LATEST_COMMITS",
        frozenset[str](),
    )
    assert {partition_path: len(names) for partition_path, names in plan.files.items()} == {"eu": 25, "us": 25}
    assert plan.files["eu"][0] == ".00000002-2e84-4310-8db2-5c0f49ec5a5b-0_20261121091956669.log.1_2-5-20"


def test_ours_says_what_hudis_does(hudis: Path) -> None:
    requested = (hudis / f".hoodie/timeline/{HUDIS}.clean.requested").read_bytes()
    theirs = read_record(requested, "theirs")
    base = next(iter(theirs["filePathsToBeDeletedPerPartition"].values()))[0]["filePath"].rpartition("/eu/")[0]
    ours = CleanPlan.decode(requested, "theirs").encode(lambda path: f"{base}/{path}")
    assert read_record(ours, "ours") == theirs


def test_so_does_our_result(hudis: Path) -> None:
    content = (hudis / f".hoodie/timeline/{COMPLETED}").read_bytes()
    requested = (hudis / f".hoodie/timeline/{HUDIS}.clean.requested").read_bytes()
    ours = CleanMetadata.of(CleanPlan.decode(requested, "plan"), HUDIS, 606)
    assert read_record(ours.encode(), "ours") == read_record(content, "theirs")
    assert CleanMetadata.decode(content, "theirs") == ours


@pytest.mark.parametrize(("name", "file"), [("Plan", f"{HUDIS}.clean.requested"), ("Metadata", COMPLETED)])
def test_the_schemas_are_those_of_hudis_files(name: str, file: str, hudis: Path) -> None:
    content = (hudis / ".hoodie/timeline" / file).read_bytes()
    theirs = json.loads(fastavro.reader(io.BytesIO(content)).metadata["avro.schema"], object_hook=_without_doc)
    assert json.loads(schema_text("HoodieCleanerPlan" if name == "Plan" else "HoodieCleanMetadata")) == theirs


@pytest.mark.parametrize(
    "plan", [PLAN, replace(PLAN, earliest=None, policy=BY_VERSIONS, extra_metadata={}), CleanPlan({}, None, "")]
)
def test_a_plan_survives_its_bytes(plan: CleanPlan) -> None:
    assert CleanPlan.decode(plan.encode(absolute), "plan") == plan
    metadata = CleanMetadata.of(plan, "5", 7)
    policy = plan.policy if plan.files else BY_HOURS  # it is with the partitions
    assert CleanMetadata.decode(metadata.encode(), "metadata") == replace(metadata, policy=policy)


def test_equal_plans_have_equal_bytes_in_whatever_order_they_were_made() -> None:
    other = CleanPlan(
        {path: PLAN.files[path] for path in reversed(list(PLAN.files))},
        PLAN.earliest,
        PLAN.last_completed,
        extra_metadata=PLAN.extra_metadata,
    )
    assert other.encode(absolute) == PLAN.encode(absolute)
    assert CleanMetadata.of(other, "5", 7).encode() == CleanMetadata.of(PLAN, "5", 7).encode()


def test_a_plan_knows_its_paths_and_savepoints() -> None:
    assert list(PLAN.paths) == ["eu/c", "us/b", "us/a"]
    assert list(CleanPlan({"": ("x",)}, None, "").paths) == ["x"]
    assert PLAN.savepoints == {"3", "4"}


def test_partitions_to_delete_and_external_files_are_left_out() -> None:
    record = read_record(PLAN.encode(absolute), "ours")
    record["partitionsToBeDeleted"] = ["asia"]
    record["filePathsToBeDeletedPerPartition"]["eu"].append({"filePath": "/else/x", "isBootstrapBaseFile": True})
    plan = CleanPlan.decode(write_record("HoodieCleanerPlan", record), "theirs")
    assert (plan.files, plan.external_files) == (PLAN.files, 1)


@pytest.mark.parametrize("content", [b"", b"Obj"])
def test_what_is_no_plan_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidTable, match="where"):
        CleanPlan.decode(content, "where")


def test_a_plan_of_names_is_refused() -> None:
    record = read_record(PLAN.encode(absolute), "ours") | {"filesToBeDeletedPerPartition": {"eu": ["x"]}}
    with pytest.raises(InvalidTable, match="old version"):
        CleanPlan.decode(write_record("HoodieCleanerPlan", record), "where")


def test_a_missing_plan_is_none() -> None:
    assert read_clean_plan(open_storage("memory://no-plan"), "1") is None


def _without_doc(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != "doc"}
