"""Whether a table could be opened is said without a write: no table, no journal, no lock."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.table.schema_evolution import Fit
from bucketingest.storage import Storage, open_storage
from bucketingest.write.open_table import check_table_fits, open_table
from support.tables.write_plans import SCHEMA, definition


@pytest.fixture
def storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}")


def paths(storage: Storage) -> list[str]:
    return sorted(each.path for each in storage.list())


def test_a_table_that_is_not_there_is_no_failure_and_is_not_made(storage: Storage) -> None:
    assert check_table_fits(storage, definition(), SCHEMA) is None
    assert paths(storage) == []


def test_a_table_that_fits_stays_as_it_is(storage: Storage) -> None:
    open_table(storage, definition(), SCHEMA)
    before = paths(storage)
    found = check_table_fits(storage, definition(), SCHEMA)
    assert found is not None
    assert found.fit is Fit.SAME
    more = check_table_fits(storage, definition(), SCHEMA.append(pa.field("note", pa.string())))
    assert more is not None
    assert more.added == ("note",)
    assert paths(storage) == before


def test_what_opening_would_refuse_is_refused_here(storage: Storage) -> None:
    open_table(storage, definition(), SCHEMA)
    with pytest.raises(UnsupportedTable):
        check_table_fits(storage, definition(hash="murmur3"), SCHEMA)
    seconds = SCHEMA.set(SCHEMA.get_field_index("id"), pa.field("id", pa.timestamp("us", "UTC")))
    with pytest.raises(UnsupportedTable, match="schema"):
        check_table_fits(storage, definition(), seconds)
