"""A driver's JVM starts first of all, on a cluster only, and what is wrong with the file is the command's to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketingest.cli.process.entry import start_jvm
from bucketingest.spec.model import BucketIngest

MASTER = "k8s://https://kubernetes.default.svc:443"
SPEC = """
apiVersion: bucketingest.dev/v1alpha1
kind: BucketIngest
metadata: {name: orders}
spec:
  source: {rate: {rowsPerSecond: 1}}
  table: {path: /tmp/orders, recordKey: [value]}
  suspend: SUSPEND
  later: ignored
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "spec.yaml"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[BucketIngest]:
    found: list[BucketIngest] = []
    monkeypatch.setattr("bucketingest.stream.spark.session.start_jvm_early", lambda each, _: found.append(each))
    return found


@pytest.mark.parametrize(
    "case",
    [
        ("run FILE", {}, True),
        ("run FILE", {"suspend": "true"}, False),
        ("run FILE", {"master": "local[2]"}, False),
        ("run FILE --once", {}, False),
        ("validate FILE", {}, False),
        ("run FILE.missing", {}, False),
        ("", {}, False),
    ],
)
def test_the_jvm_starts_early_for_a_driver_alone(
    monkeypatch: pytest.MonkeyPatch, file: Path, started: list[BucketIngest], *, case: tuple[str, dict[str, str], bool]
) -> None:
    arguments, changes, starts = case
    file.write_text(SPEC.replace("SUSPEND", changes.get("suspend", "false")))
    monkeypatch.setenv("MASTER", changes.get("master", MASTER))
    start_jvm(arguments.replace("FILE", str(file)).split())
    assert [each.metadata.name for each in started] == (["orders"] if starts else [])


def test_a_file_that_cannot_be_used_is_left_to_the_command(
    monkeypatch: pytest.MonkeyPatch, file: Path, started: list[BucketIngest]
) -> None:
    file.write_text("spec: [")
    monkeypatch.setenv("MASTER", MASTER)
    start_jvm(["run", str(file)])
    assert not started
