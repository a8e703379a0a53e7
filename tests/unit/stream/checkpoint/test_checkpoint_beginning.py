"""The start offsets of a pipeline that has no row yet are kept from start to start."""

from __future__ import annotations

import pytest

from bucketingest.spec.fields.source import KafkaSource
from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.beginning import TableBeginning, beginning_of
from bucketingest.stream.checkpoint.checkpoint import prepare_checkpoint
from bucketingest.write.coordinator_api import Start, StartVerdict
from bucketingest.write.instants.source_range import SourceRange

INITIAL = b'\0v1\n{"t":{"0":3}}'
LATEST = '["latest",["t"],null]'
NEW = Start(None, None, StartVerdict.NEW, "the table has nothing")
REWOUND = Start(None, None, StartVerdict.REWOUND, "the first instant was rolled back")
POSITION = SourceRange("kafka", '{"t":{"0":3}}', '{"t":{"0":7}}', "x", 4)


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Storage:
    """A first start has found where to start."""
    root = open_storage(f"memory://beginning-{''.join(c if c.isalnum() else '-' for c in request.node.name)}")
    prepare(root, 1, NEW)
    root.put("attempt-00000001-1/sources/0/0", INITIAL)  # Spark does
    return root


def prepare(root: Storage, number: int, start: Start, beginning: str | None = LATEST) -> bytes | None:
    """The offsets of a start that has no position."""
    name = f"attempt-{number:08d}-1"
    prepare_checkpoint(root, attempt=name, source="kafka", start=start, beginning=beginning)
    path = f"{name}/sources/0/0"
    return root.get(path) if root.exists(path) else None


def test_starts_before_the_first_commit_start_where_the_first_one_did(root: Storage) -> None:
    assert prepare(root, 2, NEW) == INITIAL
    assert prepare(root, 3, NEW) == INITIAL


def test_it_is_kept_while_there_is_a_position_for_the_case_that_it_is_rolled_back(root: Storage) -> None:
    for number in range(2, 8):
        prepare(root, number, Start(POSITION, None, StartVerdict.IN_STEP, "nothing was left open"))

    assert prepare(root, 8, REWOUND) == INITIAL


def test_a_recreated_table_starts_from_scratch(root: Storage) -> None:
    root.put("attempt-00000001-1/commits/0", b"v1\n{}")

    assert prepare(root, 2, NEW) is None


@pytest.mark.parametrize("beginning", [None, '["latest",["t","u"],null]'])
def test_another_resource_starts_from_scratch(root: Storage, beginning: str | None) -> None:
    assert prepare(root, 2, NEW, beginning) is None


def at_table(request: pytest.FixtureRequest, beginning: str | None = LATEST) -> TableBeginning:
    return TableBeginning(open_storage(f"memory://table-{request.node.nodeid.encode().hex()}"), "orders", beginning)


def test_next_to_the_table_it_outlives_every_checkpoint(root: Storage, request: pytest.FixtureRequest) -> None:
    assert at_table(request).known() is None
    at_table(request).keep(open_storage(f"{root.url}/attempt-00000001-1"))
    known = at_table(request).known()
    assert known == INITIAL

    other = open_storage(f"{root.url}-another")
    prepare_checkpoint(
        other,
        attempt="attempt-00000002-1",
        source="kafka",
        start=NEW,
        beginning=LATEST,
        known_beginning=known,
    )
    assert other.get("attempt-00000002-1/sources/0/0") == INITIAL


def test_the_first_start_to_say_where_it_began_is_right(root: Storage, request: pytest.FixtureRequest) -> None:
    at_table(request).keep(open_storage(f"{root.url}/attempt-00000001-1"))
    root.put("attempt-00000002-1/sources/0/0", INITIAL.replace(b"3", b"9"))
    at_table(request).keep(open_storage(f"{root.url}/attempt-00000002-1"))
    assert at_table(request).known() == INITIAL


def test_what_a_query_has_not_found_yet_is_kept_later(root: Storage, request: pytest.FixtureRequest) -> None:
    beginning, checkpoint = at_table(request), open_storage(f"{root.url}/attempt-00000001-1")
    root.put("attempt-00000001-1/sources/0/0", b"\0v1\n{")
    beginning.keep(checkpoint)
    assert beginning.known() is None
    root.put("attempt-00000001-1/sources/0/0", INITIAL)
    beginning.keep(checkpoint)
    assert beginning.known() == INITIAL


@pytest.mark.parametrize("other", [None, '["latest",["t","u"],null]'])
def test_of_another_resource_nothing_is_known_next_to_the_table(
    root: Storage, request: pytest.FixtureRequest, other: str | None
) -> None:
    at_table(request).keep(open_storage(f"{root.url}/attempt-00000001-1"))
    assert at_table(request, other).known() is None


@pytest.mark.parametrize("content", [b"", b"\0v1\n{", b"v2\n{}"])
def test_torn_offsets_are_not_taken(root: Storage, content: bytes) -> None:
    root.put("attempt-00000001-1/sources/0/0", content)

    assert prepare(root, 2, NEW) is None


@pytest.mark.parametrize(
    ("offsets", "beginning"),
    [("earliest", None), ("latest", LATEST), ('{"t":{"0":5}}', '["{\\"t\\":{\\"0\\":5}}",["t"],null]')],
)
def test_only_a_beginning_at_the_earliest_offsets_may_be_looked_up_again(offsets: str, beginning: str | None) -> None:
    source = KafkaSource(bootstrap_servers="h:1", topics=("t",), starting_offsets=offsets)

    assert beginning_of(source) == beginning
    assert beginning_of(None) is None
