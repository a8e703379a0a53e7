"""The archived history on a real S3 server: its version is compared and swapped, and never goes down."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from bucketingest.hudi.history.archived import archived_instants
from bucketingest.hudi.history.manifest import VERSION_PATH, load_manifest, manifest_path
from bucketingest.hudi.history.writer import publish_version
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import ConditionalStorage, Storage, open_storage
from devservers.s3 import S3Server
from support.tables.services.archivals import RULES, SERVICES, WRITES, all_instants, run
from support.tables.services.old_timelines import old_table

pytestmark = pytest.mark.s3


@pytest.fixture
def storage(s3_server: S3Server) -> Storage:
    bucket = f"archive-{uuid.uuid4().hex[:12]}"
    s3_server.create_bucket(bucket)
    return open_storage(f"s3://{bucket}/table", s3_server.options())


def test_runs_go_on_from_each_other(storage: Storage) -> None:
    assert isinstance(storage, ConditionalStorage)
    old_table(WRITES, SERVICES, storage)
    before = all_instants(storage)
    for expected in (4, 2, 0):
        assert len(run(storage, rules=replace(RULES, instants_max=4)).instants) == expected
    assert all_instants(storage) == before
    assert len(archived_instants(storage)) == 6
    assert len(Timeline.load(storage).instants) == 2
    assert storage.get(VERSION_PATH) == b"2"
    publish_version(storage, 1)
    assert storage.get(VERSION_PATH) == b"2"


def test_what_another_archival_left_unpublished_is_continued(storage: Storage) -> None:
    old_table(WRITES, SERVICES, storage)
    run(storage, rules=replace(RULES, instants_max=4))
    storage.create(manifest_path(2), storage.get(manifest_path(1)))
    run(storage)
    assert storage.get(VERSION_PATH) == b"3"
    assert load_manifest(storage).highest == 3
    assert len(archived_instants(storage)) == 6
