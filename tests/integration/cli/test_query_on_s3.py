"""`query` on a table on S3, with the credentials of other commands; once in a process of its own, as users have it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from bucketingest.cli.main import call
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage, open_storage
from devservers.s3 import S3Server
from support.tables.local_writer import LocalWriter
from support.tables.services.compactions import compact

pytestmark = pytest.mark.s3
SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("at", pa.int64())])
SQL = "SELECT at, count(*) AS n FROM orders GROUP BY at ORDER BY at"


@pytest.fixture
def table(s3_server: S3Server, tmp_path: Path) -> Storage:
    """20 keys in base files, 5 of them newer in log files; in partitions that URLs encode."""
    bucket = f"query-{uuid.uuid4().hex[:8]}"
    s3_server.create_bucket(bucket)
    path = tmp_path / "orders"
    writer = LocalWriter(path, TableDefinition("orders", ("id",), ("region",), "at", buckets=2), SCHEMA)
    for keys, at in ((20, 1), (5, 2)):
        writer.commit(pa.table([[f"k{key}" for key in range(keys)], ["ü% x"] * keys, [at] * keys], schema=SCHEMA))
        if at == 1:
            compact(open_storage(str(path)))
    storage = open_storage(f"s3://{bucket}/lake/orders", s3_server.options())
    for file in filter(Path.is_file, path.rglob("*")):
        storage.put(file.relative_to(path).as_posix(), file.read_bytes())
    return storage


def test_with_credentials_of_the_environment(
    table: Storage, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    assert call(["query", table.url, SQL, "-f", "csv"]) == ExitCode.OK
    assert capfd.readouterr().out == "at,n\n1,15\n2,5\n"
    first = Timeline.load(table).completed_commits[0].request_time
    assert (
        call(["query", "--here", table.url.replace("s3:", "s3a:"), SQL, "-f", "csv", "--since", first]) == ExitCode.OK
    )
    assert capfd.readouterr().out == "at,n\n2,5\n"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-wrong-wrong")
    assert call(["query", "--here", table.url, SQL]) == ExitCode.ACCESS_DENIED
    assert "wrong-wrong" not in capfd.readouterr().err


def test_with_options(table: Storage, s3_server: S3Server, capfd: pytest.CaptureFixture[str]) -> None:
    options = [part for name, value in s3_server.options().items() for part in ("--storage-option", f"{name}={value}")]
    assert call(["query", "--here", table.url, SQL, "-f", "csv", *options]) == ExitCode.OK
    assert capfd.readouterr().out == "at,n\n1,15\n2,5\n"
