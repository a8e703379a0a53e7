"""Objects as a tenant may write them: none ends the operator, and none hides another one."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketingest.spec.model import KIND
from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.kube.api import Api
from bucketingest_operator.kube.kinds import PODS
from bucketingest_operator.kube.mirror import Mirror
from bucketingest_operator.manifests.attempt_objects import MANAGED
from bucketingest_operator.manifests.merging_jobs import COMPACTION, COMPACTION_ROLE
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.pod_reading import PodSeen
from bucketingest_operator.observe.readers import Readers, Unreadable
from bucketingest_operator.observe.resource_reading import read_resource
from support.operator.hostile import CONFIG_MAPS, DEEP, DIGITS, JOBS, POD_STATUSES, SPECS, ended
from support.operator.observations import UID, bucket_ingest

Object = dict[str, Any]


def made(role: str, uid: str = "o1", *, annotations: dict[str, str] | None = None, **parts: Any) -> Object:
    """An object as the operator makes it, with parts changed."""
    return {
        "metadata": {
            "uid": uid,
            "name": f"orders-{uid}",
            "namespace": "ingest",
            "creationTimestamp": "2026-11-21T11:59:00Z",
            "resourceVersion": "7",
            "labels": {"bucketingest.dev/uid": UID, "bucketingest.dev/attempt": "3", "bucketingest.dev/role": role},
            "annotations": {
                "bucketingest.dev/spec-digest": "a",
                "bucketingest.dev/fixed-digest": "b",
                "bucketingest.dev/failures": "1700000000",
                **(annotations or {}),
            },
            "ownerReferences": [{"kind": KIND, "uid": UID, "controller": True}],
        },
        **parts,
    }


def ingest(spec: Object | None = None, uid: str = UID) -> Object:
    """A BucketIngest from the API server."""
    return {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": KIND,
        "metadata": {
            "uid": uid,
            "name": "orders",
            "namespace": "ingest",
            "creationTimestamp": "2026-11-21T11:00:00Z",
            "resourceVersion": "7",
            "generation": 1,
        },
        "spec": {**bucket_ingest().spec.to_document(), **(spec or {})},
        "status": {"phase": "Running", "attempt": 3, "lastCommit": {"instant": "20261121115950000"}},
    }


HOSTILE: Final[dict[str, tuple[str, Object]]] = {
    **{f"{name}: ConfigMap": ("config", made("config", annotations=each)) for name, each in CONFIG_MAPS.items()},
    **{f"{name}: pod": ("pod", made("driver", annotations=each, status={})) for name, each in CONFIG_MAPS.items()},
    **{name: ("job", made(each["role"], annotations=each)) for name, each in JOBS.items()},
    **{name: ("pod", made("driver", status=each)) for name, each in POD_STATUSES.items()},
    "an end that is no time": ("pod", made("driver", status=ended("", finishedAt="0001-01-01T00:00:00+14:00"))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_object_of_a_tenant_ends_its_reader(name: str) -> None:
    kind, found = HOSTILE[name]
    getattr(Readers(Unreadable()), kind)(found)


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (SPECS["deep offsets"], "level"),
        (SPECS["offsets of many digits"], "digits"),
        (SPECS["a deep schema"], "level"),
        ({"commit": {"trigger": f"{DIGITS}s"}}, "trigger"),
        ({"health": {"maxCommitLag": "9" * 60 + "h"}}, "maxCommitLag"),
    ],
)
def test_a_spec_that_cannot_be_read_is_an_invalid_spec(spec: Object, word: str) -> None:
    inventory = Inventory(lambda _uid: None, lambda _uid: None)
    inventory.take(ingest(spec))
    found = inventory.get(UID)
    assert found is not None
    assert found.wanted is None
    assert any(word in f"{each.field} {each.wrong}" for each in found.problems), found.problems


@pytest.mark.parametrize("name", POD_STATUSES)
def test_no_text_of_a_pod_moves_a_terminals_cursor(name: str) -> None:
    found = Readers(Unreadable()).pod(made("driver", status=POD_STATUSES[name]))
    if found is not None:
        assert all(each == plain(each) for each in _texts(asdict(found)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
        yield from _texts(each)


def test_whatever_a_spec_does_to_its_reader_it_is_an_invalid_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr("bucketingest_operator.observe.resource_reading.parse_object", broken)
    found = read_resource(ingest())
    assert found.wanted is None
    assert "RecursionError" in found.problems[0].wrong


def test_annotations_of_a_resource_fill_no_log() -> None:
    found = ingest()
    found["metadata"]["annotations"] = {f"bucketingest.dev/a{number}": "x" * 25_000 for number in range(10)}
    found["metadata"]["annotations"]["bucketingest.dev/restart"] = "\x1b" + "7" * 25_000
    inventory = Inventory(lambda _uid: None, lambda _uid: None)
    inventory.take(found)
    resource = inventory.get(UID)
    assert resource is not None
    assert resource.annotations == {"bucketingest.dev/restart": " " + "7" * 255}


def test_what_only_has_the_labels_is_not_parsed() -> None:
    unreadable = Unreadable()
    broken = made("driver", status=ended("", finishedAt="no time"))
    for owner in (
        [],
        [{"kind": KIND, "uid": "another", "controller": True}],
        [{"kind": "Node", "uid": UID, "controller": True}],
    ):
        broken["metadata"]["ownerReferences"] = owner
        assert Readers(unreadable).pod(broken) is None
    assert unreadable.count == 0


def test_an_object_that_cannot_be_read_is_named_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    unreadable = Unreadable()
    broken = made("driver", status=ended("", finishedAt="\x1b[2Jno time"))
    for _ in range(3):
        assert Readers(unreadable).pod(broken) is None
    assert unreadable.count == 3
    (record,) = caplog.records
    assert (record.__dict__["namespace"], record.__dict__["object"]) == ("ingest", "orders-o1")
    assert "\x1b" not in record.__dict__["error"]


class _Listed:
    """An API server that lists these objects, and then has no changes."""

    def __init__(self, *objects: Object) -> None:
        self.objects = list(objects)
        self.watched = asyncio.Event()

    async def pages(self, *_: object) -> AsyncIterator[tuple[list[Object], str]]:
        yield self.objects, "7"

    async def watch(self, *_: object, **__: object) -> AsyncIterator[tuple[str, Object]]:
        self.watched.set()
        await asyncio.Event().wait()
        yield "", {}


def test_a_mirror_has_the_other_objects() -> None:
    async def owners() -> list[str]:
        hostile = made("driver", "o1", status=ended("", finishedAt="no time"))
        good = made("driver", "o2", status={"phase": "Running"})
        api = _Listed(hostile, good)
        readers = Readers(Unreadable())
        mirror = Mirror[PodSeen](
            cast(Api, api),
            PODS,
            None,
            MANAGED,
            asyncio.Lock(),
            keep=readers.pod,
            changed=lambda _owner, _before, _after: None,
        )
        running = asyncio.create_task(mirror.run())
        done, _ = await asyncio.wait([running, asyncio.create_task(api.watched.wait())], return_when="FIRST_COMPLETED")
        assert running not in done
        running.cancel()
        return [each.uid for each in mirror.of(UID)]

    assert asyncio.run(owners()) == ["o2"]


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -1, float("nan"), float("inf"), 1e300, DIGITS, DEEP, "{" * 2000, "\x1b[2J", "\ud800"])
    | st.text(max_size=8)
    | st.sampled_from(["True", "Running", "9999-12-31T23:59:59-14:00", "driver", "100000000000000000"])
)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for name, each in inner for found in _places(each, (*place, name)))]


_WHOLE: Final = {
    "pod": made(
        "driver", status=ended('{"message": "m"}'), spec={"restartPolicy": "Never", "containers": [{"name": "driver"}]}
    ),
    "job": made(
        COMPACTION_ROLE,
        annotations={COMPACTION: "3/1"},
        status={
            "active": 1,
            "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z"}],
        },
    ),
    "config": made("config"),
    "ingest": ingest(
        {"source": {"kafka": {"bootstrapServers": "k:1", "topics": ["t"], "startingOffsets": '{"t":{"0":1}}'}}}
    ),
}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_json_object_ends_a_reader(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(_WHOLE)))
    found: Any = copy.deepcopy(_WHOLE[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(_places(found)[1:] or [()]))
        at = found
        for step in place[:-1]:
            at = at[step]
        if place:
            at[place[-1]] = data.draw(_JSON)
    unreadable = Unreadable()
    if kind == "ingest":
        Inventory(lambda _uid: None, lambda _uid: None, unreadable).take(found)
    else:
        getattr(Readers(unreadable), kind)(found)


@pytest.mark.parametrize("kind", ["Pod", "Job", KIND])
def test_what_is_kept_of_a_pod_is_short(kind: str) -> None:
    long = "x" * 1_000_000
    found = made(
        "executor",
        annotations=dict.fromkeys(("bucketingest.dev/restart", "bucketingest.dev/spec-digest", long[:60]), long),
        spec={"volumes": [{"name": "rpc-secret", "secret": {"secretName": long}}]},
        status={"phase": "Pending", "reason": long, "message": long},
    )
    for uid in (long, "e1"):
        found["metadata"]["ownerReferences"] = [{"kind": kind, "uid": uid, "controller": True}]
        kept = Readers(Unreadable()).pod(found)
        assert sum(map(len, _texts({} if kept is None else asdict(kept)))) < 2000
        assert (kept is None) == (kind == KIND or uid == long)


@pytest.mark.parametrize("name", CONFIG_MAPS)
def test_what_is_kept_of_an_annotation_fills_no_log(name: str) -> None:
    for found in (
        Readers(Unreadable()).config(made("config", annotations=CONFIG_MAPS[name])),
        Readers(Unreadable()).pod(made("driver", annotations=CONFIG_MAPS[name], status={})),
    ):
        assert len(repr(found)) < 20_000
        assert "\x1b" not in repr(found)
    nonce = made("config", annotations={"bucketingest.dev/restart": "\x1b" + "7" * 25_000})
    kept = Readers(Unreadable()).config(nonce)
    assert kept is not None
    assert kept.attempt_input is not None
    assert kept.attempt_input.nonce == " " + "7" * 255


@pytest.mark.parametrize("name", JOBS)
def test_what_is_kept_of_a_job_fills_no_log(name: str) -> None:
    assert len(repr(Readers(Unreadable()).job(made(JOBS[name]["role"], annotations=JOBS[name])))) < 2000
