"""All BucketIngests that the operator watches, as it last saw them, and which of them want the same table."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from bucketingest_operator.observation import Resource
from bucketingest_operator.observe.resource_reading import read_resource, table_of

Object = dict[str, Any]

_GONE_MAX: Final = 10_000


class Inventory:
    """BucketIngests by UID.

    Args:
        changed: Called with the UID of each whose next pass may decide otherwise than the one before.
        removed: Called with the UID of one that is no more.
    """

    def __init__(self, changed: Callable[[str], None], removed: Callable[[str], None]) -> None:
        self._changed = changed
        self._removed = removed
        self._resources: dict[str, Resource] = {}
        self._tables: dict[str, str] = {}
        self._rivals: dict[str, set[str]] = defaultdict(set)
        self._held: dict[str, Object | None] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._resources)

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._resources.values()))

    def get(self, uid: str) -> Resource | None:
        """The resource; None when there is none any more."""
        return self._resources.get(uid)

    def take(self, body: Object, *, quiet: bool = False, instead_of: str | None = None) -> None:
        """Take what the API server has; what is older than what is known is passed over.

        Args:
            body: The resource.
            quiet: It comes from a write of ours, and is no reason for a pass.
            instead_of: It was read when this version was already known, so it replaces it even if it is older: the API
                server's data were put back.
        """
        uid = body["metadata"]["uid"]
        if uid in self._gone:
            return  # an answer that was under way, or an event that was queued
        if uid in self._held and not quiet:
            self._held[uid] = body
            return
        before = self._resources.get(uid)
        version = body["metadata"]["resourceVersion"]
        put_back = before is not None and before.version == instead_of != version
        if before is not None and not put_back and not _newer(version, before.version):
            return
        self._resources[uid] = read_resource(body, before)
        self._name_table(uid, table_of(body))
        if not quiet:
            self._changed(uid)

    @contextmanager
    def holding(self, uid: str) -> Iterator[None]:
        """Put off what is told of a resource while we write to it: an event may come before the answer to our write."""
        self._held[uid] = None
        try:
            yield
        finally:
            body = self._held.pop(uid)
            if body is not None:
                self.take(body)

    def forget(self, uid: str) -> None:
        """The resource is no more, and never comes back: another of its name has another UID."""
        self._gone[uid] = None
        if len(self._gone) > _GONE_MAX:
            self._gone.popitem(last=False)
        if self._resources.pop(uid, None) is not None:
            self._name_table(uid, None)
            self._removed(uid)

    def rivals(self, uid: str) -> tuple[Resource, ...]:
        """The other resources that want the table of this one."""
        table = self._tables.get(uid)
        return tuple(self._resources[each] for each in self._rivals.get(table or "", ()) if each != uid)

    def _name_table(self, uid: str, table: str | None) -> None:
        """Note which table a resource wants. Whoever wanted, or wants, the same has to look again."""
        before = self._tables.get(uid)
        if before == table:
            return
        if before is not None:
            self._rivals[before].discard(uid)
            self._tell(before, uid)
            if not self._rivals[before]:
                del self._rivals[before]
            del self._tables[uid]
        if table is not None:
            self._tables[uid] = table
            self._rivals[table].add(uid)
            self._tell(table, uid)

    def _tell(self, table: str, but: str) -> None:
        for each in self._rivals[table] - {but}:
            self._changed(each)


def _newer(version: str, known: str) -> bool:
    """Whether a version comes after another: since Kubernetes 1.35 they are documented to be ordered numbers."""
    if version.isdigit() and known.isdigit():
        return int(version) > int(known)
    return version != known
