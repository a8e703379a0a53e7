"""What the registry has said, kept: ids never change their schema, so a registry that is down stops only what is new.

An id that the registry lacks may be registered later. It is asked for again in each micro-batch, so that a message that
is read tomorrow is decoded with the schema of tomorrow; for the micro-batch that was being written the answer stays.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from bucketingest.registry.client import RegisteredSchema, RegistryClient
from bucketingest.registry.errors import GaveWay, RegistryError, RegistryUnavailable, TooManyIds

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

KEPT_MAX: Final = 1000
"""Schemas that are kept: more than any topic has."""
BYTES_MAX: Final = 16 * 1024**2
"""Characters of all schemas that are kept."""
NEW_MAX: Final = 10_000
"""Ids of one micro-batch that nobody knows yet."""
_SURE_AFTER: Final = 3
"""So often the registry has to say that it lacks an id: the answering one of several may learn it a moment later."""
_AGAIN_SECONDS: Final = 1.0
_PAUSE_SECONDS_MAX: Final = 5.0
_ABSENT_MAX: Final = 100
_SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a registry that does not answer is waited for."""

    seconds: float = 120.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


def never() -> bool:
    """Nothing else is to be done."""
    return False


def waiting(ask: Callable[[], Answer], patience: Patience, gives_way: Callable[[], bool] = never) -> Answer:
    """What the registry says, asked again with growing pauses while it is unavailable. `gives_way`: whether to stop
    waiting. Raises RegistryError, GaveWay.
    """
    until = patience.clock() + patience.seconds
    pause = 1.0
    while True:
        try:
            return ask()
        except RegistryUnavailable as error:
            if gives_way():
                raise GaveWay from error
            if patience.clock() + pause > until:
                raise RegistryUnavailable(f"{error}; it was waited for {patience.seconds:g} s") from error
            log.warning("waiting for the schema registry", extra={"reason": str(error), "seconds": pause})
            patience.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)


class SchemaLookups:
    """Schemas by their ids."""

    def __init__(self, client: RegistryClient, patience: Patience | None = None) -> None:
        self._client = client
        self._patience = patience or Patience()
        self._found: OrderedDict[int, RegisteredSchema] = OrderedDict()
        self._size = 0  # of all in `_found`
        self._absent: set[int] = set()

    def known(self) -> dict[int, RegisteredSchema | None]:
        """What is decided; None for an id that the registry lacks."""
        return {**dict.fromkeys(self._absent), **self._found}

    def begin(self) -> None:
        """A further micro-batch begins: what was absent is asked for once more, or is open again."""
        asked, self._absent = sorted(self._absent)[:_ABSENT_MAX], set()
        for each in asked:
            try:
                self._keep(each, self._client.schema(each), ())
            except RegistryError:  # who meets one of the others waits for an answer
                break

    def learn(self, ids: Collection[int], gives_way: Callable[[], bool] = never) -> None:
        """Decide each id, and wait for a registry that does not answer. Raises RegistryError, GaveWay."""
        for each in ids:
            if each in self._found:
                self._found.move_to_end(each)  # kept before others
        new = sorted(set(ids) - self._found.keys() - self._absent)
        if len(new) > NEW_MAX:
            raise TooManyIds(
                f"a micro-batch has messages of {len(new)} schemas that are not known yet, such as {new[0]}: they are "
                "hardly in Confluent's wire format. Check spec.source.kafka.topics and spec.format"
            )
        for left in reversed(range(_SURE_AFTER)):
            for each in new:
                self._keep(each, waiting(partial(self._client.schema, each), self._patience, gives_way), ids)
            new = [each for each in new if each in self._absent]
            if not new or not left:
                break
            self._patience.sleep(_AGAIN_SECONDS)
        if new:
            shown = {"registry": self._client.url, "ids": new[:_SHOWN_MAX], "count": len(new)}
            log.warning("the schema registry lacks schemas of messages", extra=shown)

    def _keep(self, schema_id: int, found: RegisteredSchema | None, needed: Collection[int]) -> None:
        if found is None:
            self._absent.add(schema_id)
            return
        self._absent.discard(schema_id)
        assert schema_id not in self._found, "only what is not known is asked for"
        self._found[schema_id] = found
        self._size += _size(found)
        while len(self._found) > KEPT_MAX or self._size > BYTES_MAX:
            oldest = next(iter(self._found))
            if oldest in needed:
                raise TooManyIds(
                    f"a micro-batch has messages of more than {KEPT_MAX} schemas, or of {BYTES_MAX} characters of "
                    "schemas: lower spec.source.kafka.maxOffsetsPerTrigger"
                )
            self._size -= _size(self._found.pop(oldest))


def _size(schema: RegisteredSchema) -> int:
    return len(schema.text) + sum(map(len, schema.references))
