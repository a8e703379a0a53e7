"""The mark of a partition, compared with Hudi's."""

from pathlib import Path

import pytest

from bucketingest.hudi.table.partition import ensure_partition_metadata, partition_metadata
from bucketingest.storage.factory import open_storage
from support.tables.fixtures import unpack_fixture


def test_the_mark_is_the_text_that_hudi_writes(tmp_path: Path) -> None:
    hudis = (unpack_fixture("java_v9_avro", tmp_path) / "eu" / ".hoodie_partition_metadata").read_text()
    assert partition_metadata("eu", "20261121081713004") == hudis


@pytest.mark.parametrize(("path", "depth"), [("", 0), ("us", 1), ("us/5", 2), ("region=us/d=a b", 2)])
def test_the_depth_counts_the_levels(path: str, depth: int) -> None:
    assert f"partitionDepth={depth}\n" in partition_metadata(path, "20261121081713004")


def test_a_partition_is_marked_once() -> None:
    storage = open_storage("memory://marked_once")
    assert ensure_partition_metadata(storage, "us", "20261121081713004")
    assert not ensure_partition_metadata(storage, "us", "20261121081714512")
    assert b"commitTime=20261121081713004" in storage.get("us/.hoodie_partition_metadata")


def test_an_unpartitioned_table_is_marked_at_its_root() -> None:
    storage = open_storage("memory://marked_root")
    ensure_partition_metadata(storage, "", "20261121081713004")
    assert storage.exists(".hoodie_partition_metadata")
