"""Tables with a completed, a failed and a live instant."""

import pytest

from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested
from bucketingest.storage.factory import open_storage
from bucketingest.storage.interface import Storage
from support.tables.instants.three_instants import (
    DONE,
    DONE_AT,
    DONE_FILE,
    FAILED,
    FAILED_FILES,
    LIVE,
    LIVE_FILE,
    StorageOf,
)


@pytest.fixture
def new_table(request: pytest.FixtureRequest) -> StorageOf:
    """Makes tables with a completed, a failed and a live instant."""
    test = "".join(c if c.isalnum() else "-" for c in request.node.nodeid)

    def make(name: str) -> Storage:
        storage = open_storage(f"memory://{test}-{name}")
        storage.create("us/.hoodie_partition_metadata", b"")
        for instant, files in ((DONE, [DONE_FILE]), (FAILED, FAILED_FILES), (LIVE, [LIVE_FILE])):
            heartbeat.beat(storage, instant)
            create_requested(storage, instant)
            create_inflight(storage, instant, content=b"inflight")
            for path in files:
                create_marker(storage, instant, path.rpartition("/")[0], path.rpartition("/")[2])
                storage.create(path, b"rows")
        complete(storage, DONE, DONE_AT, b"metadata")
        return storage

    return make


@pytest.fixture
def table(new_table: StorageOf) -> Storage:
    return new_table("table")
