"""Processes in which tasks run import what tasks need, and nothing of the driver."""

import subprocess
import sys

import pytest

import bucketingest.stream

DRIVERS_OWN = ("bucketingest.spec.model", "bucketingest.stream.ingestion", "bucketingest.write.coordinator", "pydantic")


def test_a_worker_imports_nothing_of_the_driver() -> None:
    script = "import sys; import bucketingest.stream.spark.worker_daemon; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "bucketingest.write.rows.bucket_writer" in modules
    assert [name for name in DRIVERS_OWN if name in modules] == []


@pytest.mark.parametrize("name", bucketingest.stream.__all__)
def test_what_the_package_exports_is_there(name: str) -> None:
    assert getattr(bucketingest.stream, name).__name__ == name


def test_the_package_has_nothing_else() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(bucketingest.stream, "nothing")  # noqa: B009 - a constant name, which mypy would refuse
