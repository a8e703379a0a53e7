"""Opening a table: made as specified, continued as it is, or refused before anything is written."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.naming import PROPERTIES_PATH, LogFileName
from bucketingest.hudi.table import properties as java_properties
from bucketingest.hudi.table.schema import arrow_to_avro, schema_json
from bucketingest.hudi.table.schema_evolution import Evolution
from bucketingest.hudi.table.table import StateRules, load_table
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.index.errors import BucketOutOfRange, DuplicateFileGroup, InvalidKeyRule
from bucketingest.storage import Storage, open_storage
from bucketingest.write.instants.journal import ROOT
from bucketingest.write.open_table import OpenTable, check_table_fits, open_table
from bucketingest.write.plan import DELETE_COLUMN
from support.tables.other_writers import archive, commit, foreign_commit, later
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import SCHEMA, definition, row


def new_storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}")


def opened(storage: Storage | None = None, incoming: pa.Schema = SCHEMA, **changes: Any) -> OpenTable:
    return open_table(storage or new_storage(), definition(**changes), incoming)


def reasons(storage: Storage, incoming: pa.Schema = SCHEMA, **changes: Any) -> list[str]:
    """Why the table is refused."""
    with pytest.raises(UnsupportedTable) as refused:
        opened(storage, incoming, **changes)
    return list(refused.value.reasons)


def edit(storage: Storage, **changes: str) -> None:
    """Change properties of the table; `_` in a name is a dot, `__` an underscore."""
    properties = dict(java_properties.parse(storage.get(PROPERTIES_PATH).decode("iso-8859-1")))
    for name, value in changes.items():
        properties["hoodie." + name.replace("__", "\0").replace("_", ".").replace("\0", "_")] = value
    storage.put(PROPERTIES_PATH, java_properties.serialise(properties).encode("ascii"))


@pytest.fixture
def storage() -> Storage:
    """A table with the tests' definition."""
    made = new_storage()
    opened(made)
    return made


def test_a_new_table_records_how_it_is_bucketed_and_its_columns() -> None:
    table = opened(hash="murmur3", record_key=("id", "region"), hash_fields=("id",), partition_fields=(), buckets=16)
    assert table.created
    properties = table.table.properties
    assert {name: properties[f"bucketingest.bucket.{name}"] for name in ("count", "hash", "hash.fields")} == {
        "count": "16",
        "hash": "murmur3",
        "hash.fields": "id",
    }
    assert properties["hoodie.table.type"] == "MERGE_ON_READ"
    assert properties["hoodie.table.ordering.fields"] == "at"
    assert '"name":"amount"' in properties["hoodie.table.create.schema"]
    assert table.index.known == {}


def test_a_table_is_opened_again_as_it_was_made(storage: Storage) -> None:
    before = storage.get(PROPERTIES_PATH)
    again = opened(storage)
    assert not again.created
    assert again.row_schema == SCHEMA
    assert storage.get(PROPERTIES_PATH) == before


def test_opening_leaves_no_probe_behind(storage: Storage) -> None:
    opened(storage)
    assert list(storage.list(ROOT)) == []


def test_rows_with_deletes_carry_one_more_column_that_is_not_stored() -> None:
    table = open_table(new_storage(), definition(), SCHEMA, has_deletes=True)
    assert table.row_schema.names == [*SCHEMA.names, DELETE_COLUMN]
    assert DELETE_COLUMN not in table.block_schema_json


ELSEWHERE = "rows would go to other file groups than their earlier versions; set the table's own, or rewrite the rows"
FOR_LIFE = "they cannot change in a table's life: set the table's own, or use a new table"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"buckets": 8}, f"bucketingest.bucket.count=4, the spec has 8: {ELSEWHERE} into a new table"),
        ({"hash": "murmur3"}, f"bucketingest.bucket.hash=hudi, the spec has murmur3: {ELSEWHERE} into a new table"),
        (
            {"partition_fields": ("amount",)},
            f"hoodie.table.partition.fields=region, but the spec's partition fields: amount; {FOR_LIFE}",
        ),
        (
            {"record_key": ("amount",)},
            f"hoodie.table.recordkey.fields=id, but the spec's record key: amount; {FOR_LIFE}",
        ),
        (
            {"ordering_field": "amount"},
            (
                "hoodie.table.ordering.fields=at, but the spec's ordering field: amount; readers merge by the "
                "table's own: set that"
            ),
        ),
    ],
    ids=["buckets", "hash", "partition fields", "record key", "ordering"],
)
def test_a_table_that_was_made_otherwise_is_refused(storage: Storage, changes: dict[str, Any], expected: str) -> None:
    assert f"{PROPERTIES_PATH}: {expected}" in reasons(storage, **changes)


def test_other_hash_fields_are_refused() -> None:
    storage, keys = new_storage(), {"record_key": ("id", "amount"), "partition_fields": ()}
    opened(storage, hash_fields=("id",), **keys)
    assert reasons(storage, hash_fields=("amount",), **keys) == [
        f"{PROPERTIES_PATH}: bucketingest.bucket.hash.fields=id, the spec has amount: {ELSEWHERE} into a new table"
    ]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"table_version": "6"}, "hoodie.table.version=6"),
        ({"table_type": "COPY_ON_WRITE"}, "hoodie.table.type=COPY_ON_WRITE, it must be MERGE_ON_READ"),
        ({"table_metadata_partitions": "files"}, "Hudi's metadata table is on and would hide our commits from readers"),
        ({"table_name": "renamed"}, "the file was edited or torn"),
    ],
    ids=["version 6", "copy on write", "metadata table", "checksum"],
)
def test_a_table_that_cannot_be_written_rightly_is_refused(storage: Storage, change: dict[str, str], part: str) -> None:
    edit(storage, **change)
    (reason,) = reasons(storage)
    assert part in reason


def test_a_value_may_have_as_many_slashes_as_the_tables_others(storage: Storage) -> None:
    commit_files(storage, *(f"{day}/.hoodie_partition_metadata" for day in ("2026/01/01", "2026/01/02")))
    assert opened(storage).rules.partition_path.levels == 3
    storage.create("2026/.hoodie_partition_metadata", b"")
    assert opened(storage).rules.partition_path.levels is None, "readers miss rows of such partitions already"


def test_all_reasons_are_in_one_error(storage: Storage) -> None:
    edit(storage, table_version="6", table_metadata_partitions="files")
    assert len(reasons(storage, buckets=8)) == 3


def test_a_refused_table_is_not_changed(storage: Storage) -> None:
    before = {info.path: storage.get(info.path) for info in storage.list("")}
    reasons(storage, buckets=8)
    assert {info.path: storage.get(info.path) for info in storage.list("")} == before


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"record_key": ("nope",)}, UnsupportedTable, r"spec\.table\.recordKey: the rows have no column 'nope'"),
        (
            {"partition_fields": ("nope",)},
            UnsupportedTable,
            r"spec\.table\.partitionBy: the rows have no column 'nope'",
        ),
        ({"ordering_field": "nope"}, UnsupportedTable, r"spec\.table\.orderingField: the rows have no column 'nope'"),
        ({"hash": "md5"}, InvalidKeyRule, "unknown hash 'md5': known are hudi, murmur3"),
    ],
)
def test_a_definition_that_does_not_fit_the_rows_makes_no_table(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    storage = new_storage()
    with pytest.raises(error, match=message):
        opened(storage, **changes)
    assert list(storage.list("")) == []


def test_a_changed_column_type_is_refused(storage: Storage) -> None:
    incoming = SCHEMA.set(2, pa.field("amount", pa.string()))
    assert reasons(storage, incoming) == [
        "schema: column 'amount' is long in the table but string in the input; cast it"
    ]


def test_a_new_column_that_is_not_nullable_is_refused(storage: Storage) -> None:
    (reason,) = reasons(storage, SCHEMA.append(pa.field("note", pa.string(), nullable=False)))
    assert reason.startswith("schema: column 'note' is new and not nullable")


def test_a_new_nullable_column_is_added_at_the_end_and_older_rows_stay() -> None:
    table = TestTable()
    table.attempt().run(offsets(0, 1), [row("old", amount=1)])
    table.schema = SCHEMA.insert(1, pa.field("note", pa.string()))
    table.attempt().run(offsets(1, 2), [row("young", amount=2) | {"note": "hello"}])
    table.schema = SCHEMA
    attempt = table.attempt()
    assert attempt.opened.row_schema.names == [*SCHEMA.names, "note"]
    attempt.run(offsets(2, 3), [row("late", amount=3)])
    rows = {found["id"]: (found["amount"], found.get("note", "-")) for found in table.visible_rows()}
    assert rows == {"old": (1, "-"), "young": (2, "hello"), "late": (3, None)}


def commit_files(storage: Storage, *paths: str) -> None:
    """An instant of another writer with these files."""
    instant = "20261121080000000"
    create_requested(storage, instant)
    create_inflight(storage, instant)
    for path in paths:
        storage.create(path, b"")
    complete(storage, instant, "20261121080000001", b"")


def log_file(file_id: str) -> str:
    return f"eu/{LogFileName(file_id, '20261121080000000', 1)}"


def test_two_file_groups_in_one_bucket_are_refused_and_both_named(storage: Storage) -> None:
    ids = [f"00000003-{random}-4b6d-a4ef-90dafdb1c65e-0" for random in ("a21b", "b21b")]
    commit_files(storage, *map(log_file, ids))
    with pytest.raises(DuplicateFileGroup) as refused:
        opened(storage)
    assert refused.value.file_ids == tuple(ids)
    assert f"bucket 3 of partition 'eu' has two file groups, {ids[0]} and {ids[1]}" in str(refused.value)


def test_a_file_group_beyond_the_bucket_count_is_refused(storage: Storage) -> None:
    commit_files(storage, log_file("00000004-a21b-4b6d-a4ef-90dafdb1c65e-0"))
    with pytest.raises(BucketOutOfRange, match=r"belongs to bucket 4, but spec\.table\.index\.buckets is 4"):
        opened(storage)


def test_files_of_an_instant_that_did_not_complete_are_not_in_the_index(storage: Storage) -> None:
    create_requested(storage, "20261121080000000")
    storage.create(log_file("00000003-a21b-4b6d-a4ef-90dafdb1c65e-0"), b"")
    assert opened(storage).index.known == {}


def test_a_file_group_of_an_archived_instant_that_a_late_request_hides_is_in_the_index() -> None:
    """Readers will see it again: a second file group for its bucket would double its rows."""
    table = TestTable()
    table.attempt()
    file_id = foreign_commit(table, "eu", 3)
    (first,) = table.timeline().completed_commits
    archive(table)
    commit(table, CommitMetadata())
    create_requested(table.storage, str(int(first.request_time) - 1000))
    assert opened(table.storage).index.known == {("eu", 3): file_id}


def test_a_table_with_a_state_has_no_bucket_properties_and_keeps_its_index() -> None:
    storage = new_storage()
    opened(storage, state=StateRules())
    properties = load_table(storage).properties
    assert [key for key in properties if "bucket." in key] == []
    assert properties["bucketingest.index.type"] == "state"
    with pytest.raises(UnsupportedTable, match="made with an index of type state, the spec has"):
        opened(storage)


def test_a_table_with_buckets_gets_no_state() -> None:
    storage = new_storage()
    opened(storage)
    with pytest.raises(UnsupportedTable, match="made with an index of type bucket, the spec has"):
        opened(storage, state=StateRules())


def test_a_table_of_hudis_bucket_index_gets_no_state() -> None:
    table = TestTable()
    table.attempt().run(offsets(0, 2), [row("a"), row("b")])
    properties = load_table(table.storage).properties
    kept = {key: value for key, value in properties.items() if not key.startswith("bucketingest.")}
    table.storage.put(PROPERTIES_PATH, java_properties.serialise(kept, ()).encode())
    with pytest.raises(UnsupportedTable, match="have the ids of buckets"):
        opened(table.storage, state=StateRules())


def test_columns_that_come_while_log_files_are_merged_stay() -> None:
    """A commit that leaves a column out would take it from readers."""
    tags = SCHEMA.append(pa.field("tags", pa.list_(pa.string())))
    theirs, ours = (tags.append(pa.field(name, pa.string())) for name in ("theirs", "ours"))
    storage = new_storage()
    opened(storage, tags)
    time = "20260101000000000"
    create_requested(storage, time)
    create_inflight(storage, time)

    def merge(columns: pa.Schema) -> None:
        assert columns.names == tags.names
        metadata = {"schema": schema_json(arrow_to_avro(theirs, table_name="orders"))}
        complete(storage, time, later(time), CommitMetadata(extra_metadata=metadata).encode())

    table = open_table(storage, definition(), ours, merge_logs=merge)
    assert table.row_schema.names == [*theirs.names, "ours"]


@pytest.mark.parametrize(
    ("evolution", "added", "widened"), [("follow", True, True), ("additive", True, False), ("off", False, False)]
)
def test_only_changes_of_columns_that_are_asked_for_are_taken(evolution: Evolution, added: bool, widened: bool) -> None:
    storage = new_storage()
    open_table(storage, definition(), SCHEMA.append(pa.field("n", pa.int32())), evolution=evolution)
    wide = SCHEMA.append(pa.field("n", pa.int64()))
    for schema, is_taken in (
        (SCHEMA, True),
        (wide, widened),
        (wide.append(pa.field("m", pa.int32())), added and widened),
    ):
        with nullcontext() if is_taken else pytest.raises(UnsupportedTable, match=f"mode is {evolution}"):
            open_table(storage, definition(), schema, evolution=evolution)
    more = SCHEMA.append(pa.field("m", pa.int32()))
    with nullcontext() if added else pytest.raises(UnsupportedTable, match="column 'm' is new or wider"):
        check_table_fits(storage, definition(), more, evolution=evolution)
