"""The object beside the tables that names commits of them that belong together. It is a series of numbered objects,
each created if absent: of two drivers exactly one takes the next number, and neither moves back what the other one
said.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from bucketingest.errors import BucketIngestError
from bucketingest.spec.fields.tables import PLACEHOLDER
from bucketingest.storage import NotFound, Storage, StorageError, create_or_get
from bucketingest.stream.tables.consistent.cuts import ConsistentSet
from bucketingest.stream.tables.consistent.places import Named, Place

FOLDER: Final = "~sets"
"""No topic has a ~ in its name."""
VERSION: Final = 1
KEPT: Final = 3
"""Numbers, the newest, that stay."""
_LOOKS_MAX: Final = 10


class SetFileUnreadable(BucketIngestError):
    """The newest object is damaged, or of a newer version of bucketingest."""


@dataclass(frozen=True, slots=True)
class Said:
    """What an object says."""

    place: Place
    """How far the transaction topic was read, for the next start."""
    newest: ConsistentSet | None
    """For readers of the tables."""


def folder_of(path: str, pipeline: str) -> str:
    """Where the objects are. `path`: of the tables, with the place of the topic."""
    beside = path.partition(PLACEHOLDER)[0].rpartition("/")[0]
    return f"{beside}/{FOLDER}/{pipeline.replace('/', '~')}"


class SetFile:
    """Used by one thread."""

    def __init__(self, storage: Storage, path: str) -> None:
        """`storage`: of the folder. `path`: of the tables, with the place of the topic."""
        self._storage, self._path = storage, path

    def newest(self) -> Said | None:
        """What was said last, by whatever driver. Raises SetFileUnreadable, and as storage does."""
        return self._newest()[1]

    def say(self, said: Said) -> bool:
        """Make it the newest, unless another driver has said something newer, or at the same time; whether it is now.
        Raises as `newest`.
        """
        number, before = self._newest()
        if before is not None and before.place.topic_id == said.place.topic_id:
            if before.place.offset > said.place.offset:
                return False
            if said.newest is None or said.newest.is_before(before.newest):
                said = Said(said.place, before.newest)
        content = encoded(said, self._path)
        try:
            taken = create_or_get(self._storage, _name(number + 1), content) == content
        except NotFound:
            return False
        outdated = [_name(each) for each in self._numbers() if each <= number + 1 - KEPT]
        with suppress(StorageError):  # next time
            self._storage.delete_many(outdated)
        return taken

    def _newest(self) -> tuple[int, Said | None]:
        for _ in range(_LOOKS_MAX):
            number = max(self._numbers(), default=0)
            if not number:
                return 0, None
            with suppress(NotFound):  # newer ones are there
                content = self._storage.get(_name(number))
                return number, decoded(content, self._storage.absolute(_name(number)))
        raise SetFileUnreadable(f"{self._storage.url}: its objects are deleted faster than they can be read")

    def _numbers(self) -> list[int]:
        names = (info.path for info in self._storage.list())
        return [int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdecimal()]


def encoded(said: Said, path: str) -> bytes:
    """As JSON. `path`: of the tables, with the place of the topic."""
    place, newest = said.place, said.newest
    document: dict[str, Any] = {
        "version": VERSION,
        "set": newest
        and {
            "transaction": newest.last.id,
            "endedAt": datetime.fromtimestamp(newest.last.timestamp / 1000, UTC).isoformat(timespec="milliseconds"),
            "topicId": newest.topic_id,
            "end": _end(newest.last),
            "tables": {
                topic: {"path": path.replace(PLACEHOLDER, topic), "instant": instant}
                for topic, instant in newest.tables.items()
            },
        },
        "read": {
            "topicId": place.topic_id,
            "offset": place.offset,
            "since": place.since,
            "again": place.is_again,
            "last": place.last and _end(place.last),
            "named": {name: _end(each) for name, each in place.named.items()},
        },
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


def decoded(content: bytes, where: str) -> Said:
    """Raises SetFileUnreadable. `where`: for the message."""
    try:
        document = msgspec.json.decode(content)
        version = document["version"]
        if version > VERSION:
            raise SetFileUnreadable(f"{where} has version {version}: a newer bucketingest wrote it; {_WAY_OUT}")
        read, named = document["read"], document["set"]
        return Said(
            Place(
                read["topicId"],
                read["offset"],
                read["since"],
                {name: _named(each) for name, each in read["named"].items()},
                read["last"] and _named(read["last"]),
                read["again"],
            ),
            named and ConsistentSet(named["topicId"], _named(named["end"]), _instants(named["tables"])),
        )
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError) as error:
        raise SetFileUnreadable(f"{where} is damaged ({error!r}): {_WAY_OUT}") from error


_WAY_OUT: Final = "delete the folder, and the driver reads the transaction topic from its beginning"


def _instants(tables: Mapping[str, Mapping[str, str | None]]) -> dict[str, str | None]:
    return {topic: each["instant"] for topic, each in tables.items()}


def _end(named: Named) -> list[str | int]:
    return [named.id, named.count, named.offset, named.timestamp]


def _named(said: tuple[str, int, int, int]) -> Named:
    return Named(*said)


def _name(number: int) -> str:
    return f"{number:012d}.json"
