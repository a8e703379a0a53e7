"""Makes the class archive with which the JVMs of the tests start: `python -m support.jobs.class_archive FILE`.

A third of the processor time of a short run goes into loading Spark's classes. The JVM checks that the archive is of
its own version and of the same jars at the same paths, and starts without it if not.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

OPTIONS_VARIABLE: Final = "SPARK_SUBMIT_OPTS"
QUIET: Final = "-Xlog:disable"
"""Else the JVM writes its doubts to the standard output, which commands promise to keep for themselves."""


def options(archive: Path) -> str:
    """Options of a JVM that starts with the archive; none if there is none."""
    return f"-XX:SharedArchiveFile={archive} {QUIET}" if archive.exists() else ""


def main(archive: Path) -> None:
    """Run a small pipeline in a JVM that writes its classes into the archive when it ends."""
    from bucketingest.spec.model import BucketIngest
    from bucketingest.stream import ingest_resource
    from bucketingest.stream.spark.session import build_session

    archive.unlink(missing_ok=True)
    os.environ[OPTIONS_VARIABLE] = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={archive} {QUIET}"
    os.environ.setdefault("MASTER", "local[2]")
    with tempfile.TemporaryDirectory(prefix="bucketingest-archive-") as folder:
        Path(folder, "input").mkdir()
        Path(folder, "input", "rows.json").write_text('{"id": 1, "at": 1}\n{"id": 2, "at": 1}\n', encoding="utf-8")
        resource = BucketIngest.model_validate(_resource(folder))
        session = build_session(resource)
        ingest_resource(session, resource, once=True).wait()
        session.stop()
        gateway = session.sparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=120)
    assert archive.exists(), "the JVM has written its archive"


def _resource(folder: str) -> dict[str, Any]:
    return {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": "archive"},
        "spec": {
            "source": {"files": {"path": f"{folder}/input", "format": "json", "schema": "id BIGINT, at BIGINT"}},
            "transform": {"sql": "SELECT id, at, concat('a', id) AS name FROM source"},
            "table": {
                "path": f"{folder}/table",
                "recordKey": ["id"],
                "orderingField": "at",
                "index": {"buckets": 1},
            },
            "checkpoint": {"path": f"{folder}/checkpoint"},
            "services": {"mode": "off"},
        },
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
