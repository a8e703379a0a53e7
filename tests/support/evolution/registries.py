"""Where producers of a chain register their versions, and its processes ask for them: in memory, or a real registry."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol
from urllib.error import HTTPError

from bucketingest.decode.registered.subjects import readers_schemas, registry_client, writer_schema
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.registry.lookups import Patience, SchemaLookups
from bucketingest.spec.model import BucketIngest
from support.evolution.chains import Mode
from support.evolution.formats import MessageFormat, Version, protoc_in_this_process

_REFUSED = {409, 422}
"""What a registry answers for a version that is not compatible."""


class Registry(Protocol):
    """One subject."""

    def register(self, version: Version) -> int | None:
        """Its id; None if it is not compatible."""

    def starts(self) -> None:
        """A process starts, which knows nothing."""

    def columns(self) -> str:
        """The schema of the columns of a table that the process makes."""

    def learn(self, ids: Collection[int]) -> dict[int, WriterSchema]:
        """What messages of these ids are, and of those before."""


class InMemory:
    """Takes each version; its id is its number."""

    def __init__(self, format_: MessageFormat) -> None:
        self._format = format_
        self._versions: list[Version] = []
        self._asked: set[int] = set()

    def register(self, version: Version) -> int | None:
        self._versions.append(version)
        return len(self._versions)

    def starts(self) -> None:
        self._asked = set()

    def columns(self) -> str:
        return self._format.reader(self._versions[-1])

    def learn(self, ids: Collection[int]) -> dict[int, WriterSchema]:
        self._asked |= {*ids}
        return {each: WriterSchema(self._format.text(self._versions[each - 1])) for each in self._asked}


class Server(Protocol):
    """What producers ask of a registry."""

    @property
    def url(self) -> str:
        """Where it has Confluent's API."""

    def register(self, subject: str, schema: str, *, kind: str) -> int:
        """A schema's id. Raises HTTPError if it is not compatible."""

    def only_compatible(self, subject: str, mode: str) -> None:
        """From now on it takes no others."""


class Real:
    """A subject of a server, with a mode; a process asks it as a driver does."""

    def __init__(
        self, server: Server, subject: str, format_: MessageFormat, mode: Mode, patience: Patience | None = None
    ) -> None:
        self._server, self._subject, self._format, self._mode = server, subject, format_, mode
        self._patience = patience or Patience(seconds=5)
        self._kind = format_.name.upper()
        registry = {"url": server.url, "subject": subject}
        spec: dict[str, Any] = {
            "source": {"kafka": {"bootstrapServers": "127.0.0.1:1", "topics": [subject]}},
            "format": {"type": format_.name, "registry": registry},
            "table": {"path": "/nowhere", "recordKey": ["id"], "index": {"buckets": 1}},
        }
        head = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "chain"}}
        self._resource = BucketIngest.from_document({**head, "spec": spec})
        found = self._resource.spec.format
        assert found is not None, "it is given"
        assert found.registry is not None, "it is given"
        self._client = registry_client(found.registry)
        self._names: set[str] = set()
        """Of fields of the versions so far."""
        self.starts()

    def register(self, version: Version) -> int | None:
        names = {each.name for each in version}
        text = self._format.registered(version, self._mode, self._names - names)
        try:
            found = self._server.register(self._subject, text, kind=self._kind)
        except HTTPError as refused:
            with refused:
                if refused.code not in _REFUSED:
                    raise
            return None
        if not self._names:
            self._server.only_compatible(self._subject, self._mode)
        self._names |= names
        return found

    def starts(self) -> None:
        self._lookups = SchemaLookups(self._client, self._patience)

    def columns(self) -> str:
        with protoc_in_this_process():
            made = next(readers_schemas(self._resource, self._client, self._patience))
        assert made.spec.format is not None, "it is given"
        assert made.spec.format.schema_text is not None, "its columns are made"
        return made.spec.format.schema_text

    def learn(self, ids: Collection[int]) -> dict[int, WriterSchema]:
        self._lookups.begin()
        self._lookups.learn(ids)
        with protoc_in_this_process():
            return {each: writer_schema(found, self._kind) for each, found in self._lookups.known().items()}
