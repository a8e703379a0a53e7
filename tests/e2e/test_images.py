"""Both images of a platform start, and the job's writes a table that it reads back: `make test-images`.

The platform may be another than this machine's: qemu then runs the programs, the JVM among them.
"""

from __future__ import annotations

import json
import os
from typing import Final

import pytest

from devcluster.images.project import Builder, Image, builder

_CHOSEN: Final = "BUCKETINGEST_TEST_IMAGES"
pytestmark = pytest.mark.skipif(_CHOSEN not in os.environ, reason="it builds images: make test-images")

MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
SPEC: Final = """
apiVersion: bucketingest.dev/v1alpha1
kind: BucketIngest
metadata: {name: orders}
spec:
  source: {files: {path: /tmp/in, format: json, schema: "id BIGINT, name STRING"}}
  table: {path: /tmp/orders, recordKey: [id], index: {buckets: 2}}
  commit: {trigger: once}
  errors: {mode: fail}
"""
RUN: Final = f"""set -e
mkdir /tmp/in
for id in 1 2 3; do echo "{{\\"id\\": $id, \\"name\\": \\"row $id\\"}}" >>/tmp/in/rows.json; done
cat >/tmp/orders.yaml <<'END'{SPEC}END
bucketingest validate /tmp/orders.yaml
bucketingest run /tmp/orders.yaml
bucketingest compact /tmp/orders --all
bucketingest inspect /tmp/orders
/opt/bucketingest/bin/python -c 'import json, pyarrow.parquet as pq, pathlib
files = pathlib.Path("/tmp/orders").glob("*.parquet")
rows = [row for file in files for row in pq.read_table(file, columns=["id", "name"]).to_pylist()]
print(json.dumps(sorted([row["id"], row["name"]] for row in rows)))'
"""
KERBEROS: Final = """
from bucketingest.catalog.hive.gssapi import GssapiClient, KerberosFailed
try:
    GssapiClient("hive/metastore@LAKE.TEST", None, None)
except KerberosFailed as error:
    print(error)
"""


@pytest.fixture(scope="module")
def building() -> Builder:
    chosen = os.environ[_CHOSEN].removeprefix("linux/")
    return builder("" if chosen == "native" else chosen)


@pytest.fixture(scope="module")
def job(building: Builder) -> Image:
    return building.build("job")


@pytest.fixture(scope="module")
def operator(building: Builder) -> Image:
    return building.build("operator")


def test_the_operator_starts(building: Builder, operator: Image) -> None:
    machine = building.run(operator, "python3", "-c", "import platform; print(platform.machine())").strip()
    assert machine == MACHINES[building.architecture]
    assert "--leader-election-namespace" in building.run(operator, "bucketingest-operator", "--help")


def test_the_job_writes_a_table(building: Builder, job: Image) -> None:
    """Spark, Arrow, both hashes, log files, a merge and a base file: all that is native code takes part."""
    said = building.run(job, "bash", "-c", RUN)
    assert json.loads(said.splitlines()[-1]) == [[1, "row 1"], [2, "row 2"], [3, "row 3"]]


def test_the_job_has_the_library_of_kerberos(building: Builder, job: Image) -> None:
    said = building.run(job, "/opt/bucketingest/bin/python", "-c", KERBEROS)
    assert "No Kerberos credentials available" in said
