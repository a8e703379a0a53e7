"""A stored table in which a clean has something to do."""

from __future__ import annotations

from bucketingest.hudi.plans.clean_plan import CleanMetadata
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.services.clean.execute import choose_now, request
from support.tables.services.named_slices import FILE_ID, HOUR, NamedTable
from support.tables.services.stored_slices import StoredTable

GROUPS = [("eu", FILE_ID), ("us", FILE_ID)]
REPLACED = ("asia", FILE_ID)


def three_slices() -> StoredTable:
    """Two groups with slices of 300, 200 and 100 minutes ago, and a replaced one."""
    table = NamedTable()
    table.write(300, *GROUPS, REPLACED)
    table.compact(200, *GROUPS)
    table.write(150, *GROUPS)
    table.compact(100, *GROUPS)
    table.replace(90, REPLACED)
    table.write(10, *GROUPS)
    return StoredTable(table)


def planned(table: StoredTable) -> set[str]:
    plan = choose_now(table.guarded(), HOUR).plan
    return set() if plan is None else set(plan.paths)


def pending_clean(table: StoredTable) -> str:
    plan = choose_now(table.guarded(), HOUR).plan
    assert plan is not None
    return request(table.guarded(), plan)


def metadata(table: StoredTable) -> CleanMetadata:
    (clean,) = table.cleans()
    return CleanMetadata.decode(table.storage.get(path_of(clean)), "clean")
