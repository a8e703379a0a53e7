"""Our bucket rules and Hudi's: both writers put every key into the same file group."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.bucket_rules.hashing_config import HashingConfig, instants_in, load_rules
from bucketingest.hudi.naming import bucket_of_file_id
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.spec.partition_pattern import literal_pattern
from bucketingest.storage import open_storage
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.oracle.compare import assert_same_rows
from support.oracle.expected import ExpectedTable, MergeRules
from support.oracle.writer import HudiWriter
from support.tables.local_writer import LocalWriter

pytestmark = pytest.mark.hudi

RULES: Final = MergeRules(key=["id"], partition_by=["region"], ordering="at")
KEY: Final = ["region", "id"]
BUCKETS: Final = 2
DEFINITION: Final = TableDefinition(
    name="ruled", record_key=("id",), partition_fields=("region",), ordering_field="at", buckets=BUCKETS
)
SCHEMA: Final = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64()), ("value", pa.string())])
THEIRS: Final = HudiWriter(
    name="ruled", record_key=RULES.key, partition_by=RULES.partition_by, ordering="at", buckets=BUCKETS
)
KEYS: Final = 20

ATOMS: Final = ["a", "b", "é", "😀", "-", "1", ".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\.", r"\x2C", "[a-c]"]
ATOMS_TOO: Final = [
    "[^a1]",
    r"[\d\-]",
    r"[^\w]",
    r"[\s_]",
    "=",
    " ",
    "/",
    "(a|b-)",
    "(?:1|)",
    "(^a|b$)",
    r"\-",
    r"[\x2c;]",
]
TEXT: Final = [*"ab", "c", "1", "2", "-", "_", ",", ";", ".", "=", "/", " ", "é", "😀", chr(0x2028), "ß", "A"]


def some_pattern(source: random.Random) -> str:
    parts = [
        source.choice(ATOMS) + source.choices(["", "?", "*", "+", "{2}"], [12, 2, 1, 1, 1])[0]
        for _ in range(source.randint(1, 4))
    ]
    sequence = source.choice(["", "", "^"]) + "".join(parts) + source.choice(["", "", "$", r"\z"])
    return "x" + sequence.lstrip("^") if sequence != sequence.strip(" ") else sequence


def rows(at: int, *regions: str, keys: int = KEYS) -> pa.Table:
    places = [(region, f"key-{number}") for region in regions for number in range(keys)]
    columns = {
        "id": [key for _, key in places],
        "region": [region for region, _ in places],
        "at": [at] * len(places),
        "value": [f"{region} {at}" for region, _ in places],
    }
    return pa.table(columns, schema=SCHEMA)


def file_groups(path: Path) -> set[tuple[str, str]]:
    """(partition path, file id) of every file group that readers read."""
    storage = open_storage(str(path))
    timeline = Timeline.load(storage)
    groups = {
        (group.partition_path, group.file_id) for group in load_file_view(storage, timeline).groups if group.slices
    }
    return groups - replaced_file_groups(storage, timeline)


def buckets(path: Path, region: str) -> list[int]:
    return sorted(bucket_of_file_id(file_id) for partition, file_id in file_groups(path) if partition == region)


def judge(hudi: HudiOracle, path: Path, expected: ExpectedTable) -> None:
    assert_same_rows(hudi.snapshot(path), expected.table(), KEY)
    assert_same_rows(hudi_rs.snapshot(path), expected.table(), KEY)


def prime(hudi: HudiOracle, path: Path) -> None:
    """Make Hudi's rules known to its JVM before its tasks do so, side by side: as those of a table with another
    default, since it keeps rules by their text alone.
    """
    rules = load_rules(open_storage(str(path)), BUCKETS)
    assert rules.config is not None
    hudi.bucket_counts(expressions_of(rules.config.counts), BUCKETS + 5, [])


def expressions_of(counts: BucketCounts) -> str:
    return ";".join(f"{rule.pattern},{rule.buckets}" for rule in counts.rules)


def test_random_rules_give_random_partitions_the_count_that_hudis_engine_gives(hudi: HudiOracle) -> None:
    source = random.Random(89)
    paths = ["", "a" * 200, *sorted({"".join(source.choices(TEXT, k=source.randint(1, 8))) for _ in range(60)})]
    hits = 0
    for number in range(80):
        patterns = [some_pattern(source) for _ in range(4)] + [literal_pattern(source.choice(paths))]
        source.shuffle(patterns)
        counts = BucketCounts(100 + number, tuple(BucketRule(each, 1 + place) for place, each in enumerate(patterns)))
        counts.check()
        ours = counts.of_all(paths).tolist()
        assert ours == hudi.bucket_counts(expressions_of(counts), counts.default, paths), patterns
        hits += sum(count != counts.default for count in ours)
    assert len(paths) * 80 * 0.2 < hits < len(paths) * 80 * 0.99


def test_hudis_writer_follows_our_rules_and_finds_every_key_in_its_file_group(hudi: HudiOracle, tmp_path: Path) -> None:
    expected = ExpectedTable(RULES)

    def ours(batch: pa.Table, definition: TableDefinition) -> None:
        LocalWriter(tmp_path, definition, SCHEMA).commit(batch)
        expected.apply(batch)

    def theirs(batch: pa.Table) -> None:
        hudi.upsert(tmp_path, batch, THEIRS)
        expected.apply(batch)

    ours(rows(1, "eu", "u,s"), DEFINITION)
    ruled = replace(DEFINITION, bucket_rules=(BucketRule("^(f|p)", 5), BucketRule("", 3)))
    ours(rows(2, "fr", "jp"), ruled)
    prime(hudi, tmp_path)
    before = file_groups(tmp_path)
    theirs(rows(3, "eu", "u,s", "fr", "jp"))
    assert file_groups(tmp_path) == before
    theirs(rows(4, "pl", "it"))
    judge(hudi, tmp_path, expected)

    assert [buckets(tmp_path, each) for each in ("eu", "u,s", "fr", "jp", "pl", "it")] == [
        list(range(count)) for count in (2, 2, 5, 3, 5, 3)
    ]
    before = file_groups(tmp_path)
    ours(rows(5, "eu", "u,s", "fr", "jp", "pl", "it"), replace(ruled, bucket_rules=()))
    ours(rows(6, "es"), replace(ruled, bucket_rules=None))
    prime(hudi, tmp_path)
    theirs(rows(7, "eu", "u,s", "fr", "jp", "pl", "it", "es"))
    assert file_groups(tmp_path) - before == {
        ("es", file_id) for partition, file_id in file_groups(tmp_path) if partition == "es"
    }
    assert buckets(tmp_path, "es") == [0, 1]
    judge(hudi, tmp_path, expected)


def test_our_writer_follows_hudis_rescale_and_its_rules_while_it_runs_and_after_a_start(
    hudi: HudiOracle, tmp_path: Path
) -> None:
    storage, expected = open_storage(str(tmp_path)), ExpectedTable(RULES)
    first = rows(1, "eu", "us")
    hudi.upsert(tmp_path, first, THEIRS)
    expected.apply(first)
    running = LocalWriter(tmp_path, DEFINITION, SCHEMA)
    batch = rows(2, "eu", "us")
    running.commit(batch)
    expected.apply(batch)

    expressions = "^us$,5;^f,3"
    hudi.bucket_counts(expressions, BUCKETS, [])
    hudi.sql(f"CREATE TABLE ruled USING hudi LOCATION '{tmp_path}'")
    try:
        procedure = f"partition_bucket_index_manager(table => 'ruled', overwrite => '{expressions}', bucket_number => 2"
        hudi.sql(f"call {procedure}, dry_run => false)", THEIRS.session_conf())
    finally:
        hudi.sql("DROP TABLE ruled")
    assert len(instants_in(storage)) == 1
    assert buckets(tmp_path, "us") == [0, 1, 2, 3, 4]
    judge(hudi, tmp_path, expected)

    before = file_groups(tmp_path)
    for at in (3, 4):
        writer = running if at == 3 else LocalWriter(tmp_path, DEFINITION, SCHEMA)
        batch = rows(at, "eu", "us", "fr")
        writer.commit(batch)
        expected.apply(batch)
    assert {group for group in file_groups(tmp_path) if group[0] != "fr"} == before
    assert buckets(tmp_path, "fr") == [0, 1, 2]
    judge(hudi, tmp_path, expected)

    more = replace(DEFINITION, bucket_rules=(BucketRule("^g", 7),))
    batch = rows(5, "eu", "us", "fr", "gr")
    LocalWriter(tmp_path, more, SCHEMA).commit(batch)
    expected.apply(batch)
    config = load_rules(storage, BUCKETS).config
    assert isinstance(config, HashingConfig)
    assert config.kept == 2
    prime(hudi, tmp_path)
    before = file_groups(tmp_path)
    batch = rows(6, "eu", "us", "fr", "gr")
    hudi.upsert(tmp_path, batch, THEIRS)
    expected.apply(batch)
    assert file_groups(tmp_path) == before
    assert buckets(tmp_path, "gr") == [0, 1, 2, 3, 4, 5, 6]
    judge(hudi, tmp_path, expected)
