"""Commit metadata: read from Hudi's tables, written as Hudi would."""

import io
import json
from pathlib import Path

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata, WrittenFile
from bucketingest.hudi.timeline.ocf import encode_datum, read_record
from bucketingest.hudi.timeline.write_stat import WriteStat
from support.tables.fixtures import HUDI_FIXTURES, unpack_fixture

SECOND_COMMIT = ".hoodie/timeline/20261121081714512_20261121081715521.deltacommit"

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
COUNT = st.integers(0, 2**63 - 1)
STATS = st.builds(
    WriteStat,
    file_id=TEXT,
    path=st.none() | TEXT,
    partition_path=st.none() | TEXT,
    prev_commit=st.none() | TEXT,
    num_writes=COUNT,
    num_update_writes=COUNT,
    num_inserts=COUNT,
    num_deletes=COUNT,
    total_write_bytes=COUNT,
    file_size_in_bytes=COUNT,
    total_write_errors=COUNT,
    log_version=st.none() | st.integers(-(2**31), 2**31 - 1),
    log_offset=st.none() | COUNT,
    base_file=st.none() | TEXT,
    log_files=st.none() | st.lists(TEXT, max_size=3).map(tuple),
    prev_base_file=st.none() | TEXT,
    total_log_records=COUNT,
    total_log_blocks=COUNT,
    total_log_files_compacted=COUNT,
    total_log_size_compacted=COUNT,
)
METADATA = st.builds(
    CommitMetadata,
    write_stats=st.dictionaries(TEXT, st.lists(STATS, max_size=3).map(tuple), max_size=3),
    extra_metadata=st.dictionaries(TEXT, TEXT, max_size=3),
    operation_type=TEXT.filter(bool),
    compacted=st.booleans(),
)


@given(METADATA)
def test_what_is_encoded_decodes_to_the_same(metadata: CommitMetadata) -> None:
    assert CommitMetadata.decode(metadata.encode(), "here") == metadata


@given(STATS)
def test_our_encoder_writes_the_bytes_of_a_general_avro_encoder(stat: WriteStat) -> None:
    stats = {"partitionToWriteStats": {"eu": [stat.to_avro()]}, "extraMetadata": None, "operationType": None}
    assert stat.encode() in encode_datum("HoodieCommitMetadata", stats)


@given(METADATA)
def test_a_general_avro_decoder_reads_what_we_encode(metadata: CommitMetadata) -> None:
    (record,) = fastavro.reader(io.BytesIO(metadata.encode()))
    assert record == {
        "partitionToWriteStats": {
            path: [stat.to_avro() for stat in stats] for path, stats in metadata.write_stats.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra_metadata),
        "version": 1,
        "operationType": metadata.operation_type,
    }


@given(METADATA)
def test_parts_are_read_as_the_whole_is(metadata: CommitMetadata) -> None:
    data = metadata.encode()
    assert CommitMetadata.decode_extra(data, "here") == metadata.extra_metadata
    assert CommitMetadata.decode_files(data, "here") == [
        WrittenFile(
            path,
            stat.file_id,
            (stat.path or "").rpartition("/")[2],
            stat.file_size_in_bytes,
            stat.num_writes + stat.num_deletes,
            stat.num_writes,
        )
        for path, stats in metadata.write_stats.items()
        for stat in stats
    ]


def test_parts_of_a_commit_of_hudis_are_read_as_the_whole_is(tmp_path: Path) -> None:
    data = (unpack_fixture("java_v9_avro", tmp_path) / SECOND_COMMIT).read_bytes()
    metadata = CommitMetadata.decode(data, "here")
    assert CommitMetadata.decode_extra(data, "here") == metadata.extra_metadata
    assert len(CommitMetadata.decode_files(data, "here")) == 6


def test_the_extra_metadata_is_read_without_our_write_stats() -> None:
    stat = WriteStat(file_id="a", path="b", partition_path="eu", log_files=("c",))
    data = CommitMetadata(write_stats={"eu": (stat,)}, extra_metadata={"x": "y"}).encode()
    unreadable = data.replace(stat.encode(), b"\xff" * len(stat.encode()))
    assert CommitMetadata.decode_extra(unreadable, "here") == {"x": "y"}


def test_a_commit_of_hudis_is_read(tmp_path: Path) -> None:
    root = unpack_fixture("java_v9_avro", tmp_path)
    metadata = CommitMetadata.decode((root / SECOND_COMMIT).read_bytes(), "here")
    assert metadata.operation_type == "UPSERT"
    assert not metadata.compacted
    assert sorted(metadata.write_stats) == ["eu", "us"]
    assert json.loads(metadata.extra_metadata["schema"])["fields"][0]["name"] == "id"
    assert all((root / path).is_file() for path in metadata.files)
    assert len(metadata.files) == 6


def test_our_write_stats_are_those_that_hudi_gives_its_log_and_base_files(tmp_path: Path) -> None:
    root = unpack_fixture("java_v9_avro", tmp_path)
    record = read_record((root / SECOND_COMMIT).read_bytes(), "here")
    stats = [stat for partition in record["partitionToWriteStats"].values() for stat in partition]
    assert {stat["logVersion"] for stat in stats} == {None, 1}
    for stat in stats:
        name = stat["path"].rpartition("/")[2]
        size = (root / stat["path"]).stat().st_size
        partition_path = stat["partitionPath"]
        if stat["logVersion"]:
            updates = stat["numUpdateWrites"]
            own = WriteStat.of_log_file(partition_path, LogFileName.parse(name), size=size, updates=updates)
        else:
            own = WriteStat.of_base_file(
                partition_path, BaseFileName.parse(name), size=size, inserts=stat["numInserts"]
            )
        # How long it took is all that Hudi says and we do not.
        assert own.to_avro() | {"runtimeStats": stat["runtimeStats"]} == stat


def test_deletes_are_counted_as_hudi_counts_them(tmp_path: Path) -> None:
    root = unpack_fixture("java_v9_avro", tmp_path)
    path = ".hoodie/timeline/20261121081715721_20261121081716853.deltacommit"
    metadata = CommitMetadata.decode((root / path).read_bytes(), "here")
    for stats in metadata.write_stats.values():
        for stat in stats:
            name = LogFileName.parse((stat.path or "").rpartition("/")[2])
            size = stat.file_size_in_bytes
            own = WriteStat.of_log_file(stat.partition_path or "", name, size=size, deletes=stat.num_deletes)
            assert own == stat


def test_the_file_has_hudis_schema_and_no_codec(tmp_path: Path) -> None:
    reader = fastavro.reader(io.BytesIO(CommitMetadata().encode()))
    assert reader.codec == "null"
    expected = json.loads((HUDI_FIXTURES / "avsc" / "HoodieCommitMetadata.avsc").read_text())
    assert json.loads(reader.metadata["avro.schema"]) == expected
    hudis = (unpack_fixture("java_v9_avro", tmp_path) / SECOND_COMMIT).read_bytes()
    assert json.loads(fastavro.reader(io.BytesIO(hudis)).metadata["avro.schema"]) == expected


def test_equal_metadata_gives_equal_bytes() -> None:
    metadata = CommitMetadata(extra_metadata={"bucketingest.pipeline": "orders"})
    assert metadata.encode() == CommitMetadata(extra_metadata={"bucketingest.pipeline": "orders"}).encode()


def test_an_empty_inflight_file_has_no_metadata() -> None:
    assert CommitMetadata.decode(b"", "here").extra_metadata == {}
    assert CommitMetadata.decode_extra(b"", "here") == {}
    assert CommitMetadata.decode_files(b"", "here") == []
    assert CommitMetadata.decode_schema(b"", "here") is None


@pytest.mark.parametrize(("operation", "said"), [("UPSERT", "{}"), ("COMPACT", None), ("CLUSTER", None)])
def test_only_a_write_says_what_the_tables_schema_is(operation: str, said: str | None) -> None:
    data = CommitMetadata(extra_metadata={"schema": "{}"}, operation_type=operation).encode()
    assert CommitMetadata.decode_schema(data, "here") == said


@pytest.mark.parametrize("cut", [1, 5, 2000, -1])
def test_a_torn_file_is_reported_with_its_place(cut: int) -> None:
    data = CommitMetadata(extra_metadata={"a": "b"}).encode()
    with pytest.raises(InvalidTable, match=r"timeline/x\.deltacommit"):
        CommitMetadata.decode(data[:cut], "timeline/x.deltacommit")
    with pytest.raises(InvalidTable, match=r"timeline/x\.deltacommit"):
        CommitMetadata.decode_extra(data[:cut], "timeline/x.deltacommit")
