"""A bundle's decisions are replayed."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from bucketingest_operator.cli import diagnose
from bucketingest_operator.cli.bundle import DECISIONS, BundleWriter, read_decisions
from bucketingest_operator.cli.collect import OperatorLog
from bucketingest_operator.cli.diagnose import replay
from bucketingest_operator.cli.errors import NoBundle
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decision_log import EVENT, encode_observation, encode_plan
from bucketingest_operator.observation import Observation, PodState
from support.operator.observations import NOW, attempt, bucket_ingest, driver, input_of, resource, status_with


def observations() -> list[Observation]:
    """A start, a running driver, a driver that is gone."""
    wanted = bucket_ingest()
    started = resource(wanted, status=status_with(attempt(1)))
    inputs = {1: input_of(wanted)}
    return [
        Observation(NOW, resource(wanted)),
        Observation(NOW, started, drivers=(driver(1),), inputs=inputs),
        Observation(NOW, started, drivers=(driver(1, PodState.FAILED, exit_code=9, finished_at=NOW),), inputs=inputs),
        Observation(NOW, started, inputs=inputs),
    ]


def record(seen: Observation, **changes: Any) -> dict[str, Any]:
    return {
        "timestamp": "2026-11-21T12:00:00Z",
        "event": EVENT,
        "namespace": "ingest",
        "name": "orders",
        "observation": encode_observation(seen),
        "plan": encode_plan(reconcile(seen)),
        **changes,
    }


def test_the_same_version_decides_the_same() -> None:
    replayed = list(replay(json.loads(json.dumps([record(seen) for seen in observations()]))))
    assert len(replayed) == len(observations())
    assert [each.difference for each in replayed] == [()] * len(replayed)
    assert all(not each.unreadable for each in replayed)
    assert any("StartAttempt 1" in each.actions for each in replayed)


def test_a_different_decision_is_shown_with_its_diff() -> None:
    (first, *_) = observations()
    plan = {**encode_plan(reconcile(first)), "actions": []}
    (replayed,) = replay([record(first, plan=plan)])
    assert any("StartAttempt" in line for line in replayed.difference if line.startswith("+"))


def test_what_another_version_wrote_is_reported_and_does_not_end_the_replay() -> None:
    first, second, *_ = observations()
    strange = record(first)
    strange["observation"]["resource"]["generation"] = "many"
    large = {**record(first), "observation": "left out: it has 2000000 bytes"}
    replayed = list(replay([strange, {"event": "other"}, record(second), large]))
    assert [bool(each.unreadable) for each in replayed] == [True, False, True]


def test_decisions_are_found_in_the_log_among_those_of_other_resources() -> None:
    first, second, *_ = observations()
    found = OperatorLog("ingest", "orders")
    found.take(
        [
            json.dumps(record(second, timestamp="2026-11-21T12:00:02Z", level="info")),
            json.dumps(record(first, name="orders-2")),
            json.dumps(record(first, namespace="other")),
            json.dumps(
                {"event": "a pass failed", "namespace": "ingest", "name": "orders", "error": "password=hunter22"}
            ),
            "Traceback about orders with token=hunter33",
            "nothing to do with it",
        ]
    )
    found.take([json.dumps(record(first, timestamp="2026-11-21T12:00:01Z"))])
    assert [each["timestamp"][-3:] for each in found.ordered()] == ["01Z", "02Z"]
    assert [set(each) for each in found.ordered()] == [{"timestamp", "namespace", "name", "observation", "plan"}] * 2
    assert len(found.others) == 2
    assert "hunter" not in "".join(found.others)


def bundle_of(path: Path, *records: dict[str, Any]) -> Path:
    writer = BundleWriter("bundle")
    writer.add("logs/driver.log", "x\n")
    writer.add(DECISIONS, "".join(f"{json.dumps(each)}\n" for each in records) + "no JSON\n")
    writer.missing["timeline.txt"] = "no driver pod is running"
    writer.write(path)
    return path


def test_a_bundle_is_read_back_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = bundle_of(tmp_path / "b.tar.gz", *map(record, observations()))
    assert len(list(read_decisions(path))) == len(observations())
    assert path.stat().st_mode & 0o077 == 0
    with tarfile.open(path) as archive:
        assert sorted(archive.getnames()) == ["bundle/decisions.jsonl", "bundle/logs/driver.log", "bundle/missing.txt"]


def test_the_replay_is_printed_with_a_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = observations()
    changed = record(first, plan={**encode_plan(reconcile(first)), "lookAgainSeconds": 4711.0})
    diagnose.show_replay(bundle_of(tmp_path / "b.tar.gz", changed, *map(record, others)))
    printed = capsys.readouterr().out
    assert printed.endswith("4 decisions: 3 the same, 1 others\n")
    assert '    - "lookAgainSeconds": 4711.0' in printed


@pytest.mark.parametrize("content", [b"", b"no archive at all"])
def test_a_file_that_is_not_a_bundle_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    with pytest.raises(NoBundle, match="cannot be read as a bundle"):
        list(read_decisions(path))


def test_a_bundle_without_decisions_says_why_it_has_none(tmp_path: Path) -> None:
    writer = BundleWriter("bundle")
    writer.add("resource.yaml", "{}")
    writer.write(tmp_path / "b.tar.gz")
    with pytest.raises(NoBundle, match="the operator's log could not be read"):
        list(read_decisions(tmp_path / "b.tar.gz"))
