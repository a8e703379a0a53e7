"""A store that takes half a second for each request: commits take long, and say so; no row is lost or doubled."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from devservers.s3 import S3Server
from support.jobs.files_pipeline import FilesPipeline, newest_rows
from support.jobs.files_runs import to_the_end
from support.oracle import hudi_rs
from support.storage.slow_proxy import SlowProxy

LATE = timedelta(seconds=0.5)


@pytest.mark.s3
def test_a_slow_store_delays_commits_and_nothing_else(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = f"slow-{uuid.uuid4().hex[:8]}"
    s3_server.create_bucket(bucket)
    pipeline = FilesPipeline(tmp_path)
    pipeline.write_input()
    pipeline.describe()
    text = pipeline.file.read_text().replace(str(pipeline.table), f"s3://{bucket}/orders")
    pipeline.file.write_text(text.replace("maxFilesPerTrigger: 1", "maxFilesPerTrigger: 6"))

    with SlowProxy(s3_server.endpoint, LATE) as proxy:
        for name, value in (s3_server.environment | {"AWS_ENDPOINT_URL": proxy.endpoint}).items():
            monkeypatch.setenv(name, value)
        events = to_the_end(pipeline)

    commits = [event for event in events if event["event"] == "committed"]
    assert len(commits) == 2
    assert all(timedelta(seconds=event["commit_seconds"]) > 2 * LATE for event in commits)
    rows = hudi_rs.snapshot(s3_server.folder / "buckets" / bucket / "orders")
    assert sorted(zip(rows["id"].to_pylist(), rows["seq"].to_pylist(), strict=True)) == newest_rows()
