"""What the registry has said is kept; an outage is waited for, and decides nothing about a message."""

from __future__ import annotations

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.registry import lookups as lookups_module
from bucketingest.registry.client import RegisteredSchema, RegistryClient
from bucketingest.registry.credentials import Credentials
from bucketingest.registry.errors import GaveWay, RegistryDenied, RegistryUnavailable, TooManyIds
from bucketingest.registry.lookups import Patience, SchemaLookups
from support.registry.http_registry import HttpRegistry, respond


class Hands:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.naps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds

    def patience(self, seconds: float = 120.0) -> Patience:
        return Patience(seconds, self.sleep, lambda: self.now)


def lookups(registry: HttpRegistry, hands: Hands | None = None) -> SchemaLookups:
    return SchemaLookups(RegistryClient(registry.url, Credentials), (hands or Hands()).patience())


def goes_down(registry: HttpRegistry) -> None:
    registry.misbehaves = lambda handler: respond(handler, 503, {})


def test_each_id_is_asked_for_once_and_kept_while_the_registry_is_down(registry: HttpRegistry) -> None:
    ids = [registry.register("a", '"int"'), registry.register("a", '"long"')]
    found = lookups(registry)
    found.learn(ids)
    goes_down(registry)
    found.begin()
    found.learn(ids)
    assert found.known() == {1: RegisteredSchema('"int"', "AVRO"), 2: RegisteredSchema('"long"', "AVRO")}
    assert registry.asked == ["/schemas/ids/1", "/schemas/ids/2"]


def test_an_id_keeps_its_schema_whatever_the_registry_says_of_it_later(registry: HttpRegistry) -> None:
    number = registry.register("a", '"int"')
    found = lookups(registry)
    found.learn([number])
    registry.schemas[number] = {"schema": '"string"'}
    other = registry.register("a", '"long"')
    found.begin()
    found.learn([number, other])
    assert found.known() == {number: RegisteredSchema('"int"', "AVRO"), other: RegisteredSchema('"long"', "AVRO")}


def test_an_outage_is_waited_for_with_growing_pauses(registry: HttpRegistry) -> None:
    registry.register("a", '"int"')
    goes_down(registry)
    hands = Hands()

    def sleep(seconds: float) -> None:
        hands.sleep(seconds)
        if len(hands.naps) == 5:
            registry.misbehaves = None

    found = SchemaLookups(RegistryClient(registry.url, Credentials), Patience(120, sleep, lambda: hands.now))
    found.learn([1])
    assert (hands.naps, set(found.known())) == ([1, 2, 4, 5, 5], {1})


def test_an_outage_that_lasts_ends_the_attempt_and_decides_nothing(registry: HttpRegistry) -> None:
    goes_down(registry)
    hands = Hands()
    found = lookups(registry, hands)
    with pytest.raises(RegistryUnavailable, match=r"503.*it was waited for 120 s") as lasting:
        found.learn([1])
    assert lasting.value.exit_code is ExitCode.SOURCE_UNAVAILABLE
    assert found.known() == {}
    assert sum(hands.naps) <= 120


def test_waiting_ends_when_the_query_is_to_stop(registry: HttpRegistry) -> None:
    goes_down(registry)
    hands = Hands()
    with pytest.raises(GaveWay):
        lookups(registry, hands).learn([1], lambda: hands.now > 3)
    assert hands.naps == [1, 2, 4]


def test_denied_access_is_not_waited_for(registry: HttpRegistry) -> None:
    registry.authorization = "Basic other"
    hands = Hands()
    with pytest.raises(RegistryDenied):
        lookups(registry, hands).learn([1])
    assert hands.naps == []


def test_an_absent_id_is_asked_for_three_times_all_of_them_in_the_same_pauses(registry: HttpRegistry) -> None:
    hands = Hands()
    found = lookups(registry, hands)
    found.learn([1, 2])
    assert found.known() == {1: None, 2: None}
    assert (len(registry.requests), hands.naps) == (6, [1, 1])


def test_an_id_that_a_replica_learns_a_moment_later_is_found(registry: HttpRegistry) -> None:
    hands = Hands()

    def sleep(seconds: float) -> None:
        hands.sleep(seconds)
        registry.register("a", '"int"')

    patience = Patience(120, sleep, lambda: hands.now)
    found = SchemaLookups(RegistryClient(registry.url, Credentials), patience)
    found.learn([1])
    assert found.known() == {1: RegisteredSchema('"int"', "AVRO")}


def test_an_absent_id_stays_so_for_its_micro_batch_and_is_asked_for_in_the_next(registry: HttpRegistry) -> None:
    found = lookups(registry)
    found.learn([1])
    registry.register("a", '"int"')
    assert found.known() == {1: None}
    found.learn([1])
    assert found.known() == {1: None}
    found.begin()
    assert found.known() == {1: RegisteredSchema('"int"', "AVRO")}


def test_an_absent_id_is_open_again_when_the_registry_no_longer_answers(registry: HttpRegistry) -> None:
    found = lookups(registry)
    found.learn([1, 2])
    goes_down(registry)
    found.begin()
    assert found.known() == {}


def test_more_new_ids_than_a_topic_has_are_refused_before_any_is_asked_for(
    registry: HttpRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups_module, "NEW_MAX", 3)
    with pytest.raises(TooManyIds, match=r"messages of 4 schemas that are not known yet, such as 1: .*topics"):
        lookups(registry).learn([1, 2, 3, 4])
    assert registry.requests == []


@pytest.mark.parametrize("limit", ["KEPT_MAX", "BYTES_MAX"])
def test_the_longest_unused_schemas_make_room(
    registry: HttpRegistry, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(lookups_module, limit, 3 if limit == "KEPT_MAX" else 15)
    for number in range(6):
        registry.register("a", f'"x{number}y"')  # five characters with its quotes
    found = lookups(registry)
    found.learn([1, 2, 3])
    found.learn([1])
    found.learn([4])
    assert set(found.known()) == {3, 1, 4}
    with pytest.raises(TooManyIds, match=r"lower spec\.source\.kafka\.maxOffsetsPerTrigger"):
        found.learn([1, 4, 5, 6])
