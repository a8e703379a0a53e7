"""All BucketIngests that the operator watches, in their newest known version, and which of them want the same table."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from bucketingest.spec.base import SpecModel
from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.observe.readers import Unreadable
from bucketingest_operator.observe.resource_reading import read_resource, table_of
from bucketingest_operator.resource import Resource

log = logging.getLogger(__name__)

Object = dict[str, Any]

_GONE_MAX: Final = 10_000
_OTHERS_MAX: Final = 10
_TABLE_MAX: Final = 500


class Inventory:
    """BucketIngests by UID. `changed` is called with the UID of each resource whose next pass may decide something new,
    `removed` with that of each that no longer exists. `image`: of a spec that names none.
    """

    def __init__(
        self,
        changed: Callable[[str], None],
        removed: Callable[[str], None],
        unreadable: Unreadable | None = None,
        image: str = "",
    ) -> None:
        self._image = image
        self._unreadable = unreadable or Unreadable()
        self._changed = changed
        self._removed = removed
        self._resources: dict[str, Resource] = {}
        self._namespaces: Counter[str] = Counter()
        self._tables: dict[str, str] = {}
        self._rivals: dict[str, set[str]] = defaultdict(set)
        self._held: dict[str, Object | None] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._sections: dict[str, SpecModel] = {}

    def __len__(self) -> int:
        return len(self._resources)

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._resources.values()))

    @property
    def namespaces(self) -> int:
        """How many namespaces have resources."""
        return len(self._namespaces)

    def get(self, uid: str) -> Resource | None:
        """The resource; None if it no longer exists."""
        return self._resources.get(uid)

    def take(self, body: Object, *, quiet: bool = False, instead_of: str | None = None) -> None:
        """Store a resource from the API server; ignore it if it is older than the known one, or cannot be read.
        `quiet`: it comes from the operator's own write, and needs no pass. `instead_of`: it was read when this version
        was already known, so it replaces it even if it is older: the API server's data were restored from a backup.
        """
        try:
            self._take(body, quiet=quiet, instead_of=instead_of)
        except Exception as error:  # noqa: BLE001 - whatever one resource does to its reader, the others are read
            self._unreadable.note(body, error)

    def _take(self, body: Object, *, quiet: bool, instead_of: str | None) -> None:
        uid = body["metadata"]["uid"]
        if uid in self._gone:
            return  # a late answer or event
        if uid in self._held and not quiet:
            self._held[uid] = body
            return
        before = self._resources.get(uid)
        version = body["metadata"]["resourceVersion"]
        restored = before is not None and before.version == instead_of != version
        if before is not None and not restored and not _newer(version, before.version):
            return
        found, table = read_resource(body, before, self._image), table_of(body)
        if found.wanted is not None:
            self._share(found.wanted.spec, "")
        self._resources[uid] = found
        if before is None:
            self._namespaces[found.namespace] += 1
        self._name_table(uid, table)
        if not quiet:
            self._changed(uid)

    def _share(self, of: SpecModel, path: str) -> None:
        """Keep sections of a spec once that are as in another spec: most are the defaults, and most of the memory."""
        for name, section in vars(of).items():
            if isinstance(section, SpecModel):
                where = f"{path}.{name}"
                if self._sections.get(where) == section:
                    vars(of)[name] = self._sections[where]
                else:
                    self._sections[where] = section
                    self._share(section, where)

    @contextmanager
    def holding(self, uid: str) -> Iterator[None]:
        """Delay events of a resource while the operator writes to it: an event may come before the write's answer."""
        self._held[uid] = None
        try:
            yield
        finally:
            body = self._held.pop(uid)
            if body is not None:
                self.take(body)

    def forget(self, uid: str) -> None:
        """Remove a deleted resource, which never comes back: another of its name has another UID."""
        self._gone[uid] = None
        if len(self._gone) > _GONE_MAX:
            self._gone.popitem(last=False)
        gone = self._resources.pop(uid, None)
        if gone is not None:
            self._namespaces[gone.namespace] -= 1
            self._namespaces += Counter()  # without those that are zero
            self._name_table(uid, None)
            self._removed(uid)

    def rivals(self, uid: str) -> tuple[Resource, ...]:
        """The other resources of its namespace that want the table of this one.

        Between namespaces the table's lease in the storage decides, and who may write there: what a tenant's driver
        says of its commits is no claim against another tenant.
        """
        return tuple(each for each in self._others(uid) if each.namespace == self._resources[uid].namespace)

    def taken(self, body: Object) -> list[str]:
        """Who has the table of a BucketIngest that is not stored yet, in the words of `TableTaken`."""
        where, name = body["metadata"]["namespace"], body["metadata"]["name"]
        there = [self._resources[each] for each in self._rivals.get(table_of(body) or "", ())]
        others = (each for each in there if each.namespace == where and each.name != name)
        holders = (each for each in others if not each.rests and not each.deleting)
        return [f"spec.table.path: The table belongs to {where}/{each.name}." for each in holders]

    def _others(self, uid: str) -> list[Resource]:
        """The other resources that want the table of this one, of all namespaces."""
        table = self._tables.get(uid)
        return [self._resources[each] for each in self._rivals.get(table or "", ()) if each != uid]

    def _name_table(self, uid: str, table: str | None) -> None:
        """Note which table a resource wants. Other resources of the old and of the new table need a pass."""
        before = self._tables.get(uid)
        if before == table:
            return
        if before is not None:
            self._rivals[before].discard(uid)
            self._notify(before, uid)
            if not self._rivals[before]:
                del self._rivals[before]
            del self._tables[uid]
        if table is not None:
            self._tables[uid] = table
            self._rivals[table].add(uid)
            self._notify(table, uid)
            self._log_others(uid)

    def _log_others(self, uid: str) -> None:
        """Tell administrators of a table that several namespaces name. Their users see only their own."""
        one = self._resources[uid]
        others = sorted(
            f"{each.namespace}/{each.name}" for each in self._others(uid) if each.namespace != one.namespace
        )
        if others:
            who = {"namespace": one.namespace, "resource": one.name, "table": plain(self._tables[uid])[:_TABLE_MAX]}
            log.warning("several namespaces name one table", extra={**who, "others": others[:_OTHERS_MAX]})

    def _notify(self, table: str, without: str) -> None:
        for each in self._rivals[table] - {without}:
            self._changed(each)


def _newer(version: str, known: str) -> bool:
    """Whether a version is newer than another: since Kubernetes 1.35 versions are documented as ordered numbers."""
    if version.isdigit() and known.isdigit():
        return int(version) > int(known)
    return version != known
