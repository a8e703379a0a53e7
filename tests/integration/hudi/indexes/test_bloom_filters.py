"""Our bloom filters of base files are Hudi's: the same bytes for the same keys, and Hudi finds every key in them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.base.bloom_filter import FALSE_POSITIVES, FOOTER_KEY, BloomFilter
from support.oracle.client import HudiOracle
from support.oracle.writer import HudiWriter
from support.tables.bloom_filters import might_contain

pytestmark = pytest.mark.hudi

ALPHABETS = ("0123456789abcdef-", "äöüßé", "日本語漢字", "😀𝔘x")
ROWS = 20_000


def key(chance: random.Random, number: int) -> str:
    """A key of 1 to 40 characters, of one or four bytes each, that no other number has."""
    letters = "".join(chance.choices(chance.choice(ALPHABETS), k=chance.randrange(30)))
    return f"{letters}{number}"


def test_a_base_file_of_hudis_has_the_filter_that_we_make_of_its_keys(hudi: HudiOracle, tmp_path: Path) -> None:
    chance = random.Random(1)
    keys = [key(chance, number) for number in range(ROWS)]
    writer = HudiWriter(
        name="t",
        record_key=["id"],
        ordering="at",
        buckets=1,
        extra={
            "hoodie.bloom.index.filter.type": "SIMPLE",
            "hoodie.index.bloom.num_entries": str(ROWS),
            "hoodie.index.bloom.fpp": str(FALSE_POSITIVES),
        },
    )
    hudi.upsert(tmp_path / "t", pa.table({"id": keys, "at": list(range(ROWS))}), writer)
    (base_file,) = (tmp_path / "t").glob("*.parquet")
    footer = pq.read_metadata(base_file).metadata
    built = BloomFilter.for_keys(ROWS)
    for chunk in pq.read_table(base_file, columns=["_hoodie_record_key"], partitioning=None).column(0).chunks:
        built.add(chunk)
    assert built.text() == footer[FOOTER_KEY.encode()].decode()
    assert b"hoodie_bloom_filter_type_code" not in footer


@pytest.mark.parametrize("count", [1, 100_000, 2_000_000])
def test_hudi_finds_our_keys_and_few_others(hudi: HudiOracle, count: int) -> None:
    chance = random.Random(2)
    letters = "".join(ALPHABETS)
    keys = [f"{letters[number % len(letters)] * (number % 7)}{number}" for number in range(count + 20_000)]
    built = BloomFilter.for_file(count)
    built.add(pa.array(keys[:count]))
    there = chance.sample(keys[:count], min(count, 2000))
    asked = [*there, *keys[count:]]
    found = hudi.bloom_filter_finds(built.text(), asked)
    assert all(found[: len(there)])
    assert found == might_contain(built, pa.array(asked))
    assert sum(found[len(there) :]) <= 20_000 * 2e-3
