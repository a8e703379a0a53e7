"""Of two releases that watch the same namespace one acts there, and the other says which one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bucketingest_operator.kube.api import AlreadyExists, ApiError, Conflict, NotFound
from bucketingest_operator.kube.watch_claims import CLAIM, CLUSTER_NAMESPACE, WATCH_LEASE, WatchClaims


class Leases:
    """The Leases of a cluster, and a clock that all share."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.leases: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.forbidden = False
        self.silent = False
        self.listing_seconds = 0.0

    def time(self) -> float:
        return self.now

    def _called(self) -> None:
        if self.silent:
            raise ApiError("time-out")
        if self.forbidden:
            raise ApiError("no right", code=403)

    async def get(self, _kind: Any, namespace: str, name: str) -> Any:
        self._called()
        assert name == WATCH_LEASE
        if namespace not in self.leases:
            raise NotFound("none", code=404)
        lease = self.leases[namespace]
        return {"metadata": dict(lease["metadata"]), "spec": dict(lease["spec"])}

    async def create(self, _kind: Any, namespace: str, lease: Any) -> None:
        self._called()
        if namespace in self.leases:
            raise AlreadyExists("there", code=409)
        self._store(namespace, lease)

    async def replace(self, _kind: Any, namespace: str, _name: str, lease: Any) -> None:
        self._called()
        if lease["metadata"]["resourceVersion"] != self.leases[namespace]["metadata"]["resourceVersion"]:
            raise Conflict("changed", code=409)
        self._store(namespace, lease)

    async def pages(self, _kind: Any, _namespace: None, *, fields: str) -> Any:
        self._called()
        assert fields == f"metadata.name={WATCH_LEASE}"
        self.now += self.listing_seconds
        for each in self.leases.values():
            yield [each], "1"

    def _store(self, namespace: str, lease: Any) -> None:
        self.version += 1
        metadata = {"namespace": namespace, "resourceVersion": str(self.version)}
        self.leases[namespace] = {"metadata": metadata, "spec": dict(lease["spec"])}


@pytest.fixture
def cluster() -> Leases:
    return Leases()


class Release:
    """A release, whose leader this process is."""

    def __init__(self, cluster: Leases, name: str, *namespaces: str) -> None:
        self.changes = 0
        self.cluster = cluster
        self.claims = WatchClaims(cluster, name, namespaces, self._changed, clock=cluster)  # type: ignore[arg-type]

    def _changed(self) -> None:
        self.changes += 1

    def step(self) -> None:
        asyncio.run(self.claims.step())

    def acts(self, *namespaces: str) -> list[bool]:
        return [self.claims.may_act(each) for each in namespaces]


def test_of_two_releases_that_name_a_namespace_the_first_acts_there(cluster: Leases) -> None:
    first, second = Release(cluster, "ops/one", "a", "b"), Release(cluster, "ops/two", "b", "c")
    for _ in range(20):
        first.step()
        second.step()
        cluster.now += 5
        assert first.acts("a", "b") == [True, True]
        assert second.acts("b", "c") == [False, True]
    assert first.claims.problem is None
    assert "b (release ops/one)" in (second.claims.problem or "")


def test_a_namespace_that_somebody_takes_is_named_and_the_others_go_on(cluster: Leases) -> None:
    tenant, ours = Release(cluster, "forged", "b"), Release(cluster, "ops/ours", "a", "b")
    tenant.step()
    ours.step()
    assert ours.acts("a", "b") == [True, False]
    assert "b (release forged)" in (ours.claims.problem or "")
    assert (ours.claims.taken, ours.claims.useless) == (1, False)
    alone = Release(cluster, "ops/alone", "b")
    alone.step()
    assert (alone.claims.taken, alone.claims.useless) == (1, True)


def test_after_its_end_the_other_acts(cluster: Leases) -> None:
    first, second = Release(cluster, "ops/one", "b"), Release(cluster, "ops/two", "b")
    first.step()
    second.step()
    asyncio.run(first.claims.release())
    second.step()
    assert (first.acts("b"), second.acts("b")) == ([False], [True])
    assert second.claims.problem is None
    assert second.changes == 1


def test_one_that_was_killed_is_followed_once_nobody_trusts_its_claim(cluster: Leases) -> None:
    first, second = Release(cluster, "ops/one", "b"), Release(cluster, "ops/two", "b")
    first.step()
    second.step()
    cluster.now += CLAIM.lease
    second.step()
    assert (first.acts("b"), second.acts("b")) == ([False], [False])
    cluster.now += 1
    second.step()
    assert second.acts("b") == [True]


def test_the_processes_of_a_release_have_the_same_claims(cluster: Leases) -> None:
    leader, successor = Release(cluster, "ops/one", "b"), Release(cluster, "ops/one", "b")
    leader.step()
    successor.step()
    assert successor.acts("b") == [True]


def test_a_release_for_the_whole_cluster_leaves_alone_what_another_names(cluster: Leases) -> None:
    whole, named = Release(cluster, "ops/whole"), Release(cluster, "team/named", "b")
    whole.step()
    assert whole.acts("a", "b") == [True, True]
    named.step()
    whole.step()
    assert (whole.acts("a", "b"), named.acts("b")) == ([True, False], [True])
    assert whole.claims.problem is None
    changes = whole.changes
    for _ in range(3):  # it lives no more
        cluster.now += CLAIM.lease / 2
        whole.step()
    assert whole.acts("a", "b") == [True, True]
    assert whole.changes > changes, "what it did not look at is due now"


def test_a_gap_that_begins_while_the_api_server_answers_is_one(cluster: Leases) -> None:
    whole = Release(cluster, "ops/whole")
    whole.step()
    cluster.now += CLAIM.trusted - 1
    changes, cluster.listing_seconds = whole.changes, 2.0
    whole.step()
    assert whole.acts("a") == [True]
    assert whole.changes > changes, "what was due in the gap is due now"


def test_two_releases_for_the_whole_cluster_do_not_both_act(cluster: Leases) -> None:
    first, second = Release(cluster, "ops/one"), Release(cluster, "other/two")
    first.step()
    second.step()
    assert (first.acts("a"), second.acts("a")) == ([True], [False])
    assert "ops/one watches the whole cluster too" in (second.claims.problem or "")
    assert list(cluster.leases) == [CLUSTER_NAMESPACE]


@pytest.mark.parametrize("names", [(), ("a",)])
def test_without_an_answer_it_soon_stops(cluster: Leases, names: tuple[str, ...]) -> None:
    one = Release(cluster, "ops/one", *names)
    assert one.acts("a") == [False]
    one.step()
    cluster.silent = True
    for _ in range(5):
        cluster.now += 5
        one.step()
    assert one.acts("a") == [False]


@pytest.mark.parametrize("names", [(), ("a",)])
def test_rights_of_an_earlier_version_are_enough(cluster: Leases, names: tuple[str, ...]) -> None:
    cluster.forbidden = True
    one = Release(cluster, "ops/one", *names)
    one.step()
    assert one.acts("a") == [True]
    assert one.changes


def test_a_holder_without_end_or_with_escapes_fills_no_log_and_no_memory(
    cluster: Leases, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    tenant, ours = Release(cluster, "x/\x1b[2J" + "y" * 1_000_000, "b"), Release(cluster, "ops/ours", "a", "b")
    whole = Release(cluster, "ops/whole")
    for each in (tenant, ours, whole):
        each.step()
    assert ours.acts("a", "b") == [True, False]
    assert whole.acts("b") == [False]
    assert len(ours.claims.problem or "") < 1000
    said = str([vars(each) for each in caplog.records if "claims" in each.name])
    assert "left to the release" in said
    assert len(said) < 10_000
    assert "x1b" not in said
