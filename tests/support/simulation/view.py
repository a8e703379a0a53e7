"""One actor's view of a simulated store: the storage interface with every fault that a real store can show.

Not simulated, because the interface rules it out: a half-written object (`create` and `put` are atomic on every store
that is accepted). A bulk deletion is not atomic, and may stop in the middle.
"""

from __future__ import annotations

import pathlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from bucketingest.storage import StorageError, StorageUnavailable
from bucketingest.storage.interface import BytesLike, Data, Level, ObjectInfo
from support.simulation.outlasting import Outlasting
from support.simulation.store import Objects, StoredObject, Watch
from support.simulation.world import Actor, Killed, World

_STALE_STEPS: Final = 40
"""Greatest age of a change that a stale listing does not show."""

_DANGEROUS: Final = re.compile(
    r"/(decision|go|opened|plan|intent/\d+|ledger/\d+|\d+_\d+\.(?:deltacommit|commit)|\.[^/]+\.log\.\d+_0-0-0"
    r"|\d+\.(deltacommit|rollback|compaction)\.(requested|inflight))$"
)
_DANGEROUS_TOO: Final = re.compile(r"/(done|manifest_\d+|[^/]+\.parquet|\d+\.(clean|savepoint)\.(requested|inflight))$")
"""Where faults are aimed at table services."""
_ON_TIMELINE: Final = re.compile(r"\.hoodie/timeline/(\d{17})")
_COMPLETED: Final = re.compile(r"\.hoodie/timeline/\d+_\d+\.deltacommit")
_CONSISTENT: Final = (".hoodie/timeline", ".hoodie/.bucketingest")


class View:
    """The store as one actor sees it. Dies with its actor: after that every call raises Killed."""

    def __init__(
        self,
        objects: Objects,
        world: World,
        actor: Actor,
        *,
        lands_late: bool = True,
        lists_stale: bool = True,
        aim: float = 0.0,
        outlasting: Outlasting | None = None,
    ) -> None:
        """`aim`: how often a change by this actor is hit by a fault, beyond what the world's chances say. `outlasting`:
        one change of this actor, or of others, that comes after all else.
        """
        self._outlasting = outlasting
        self._aim = aim
        self._lists_stale = lists_stale
        self._objects = objects
        self._world = world
        self._actor = actor
        self._lands_late = lands_late
        self._throttled = 0

    @property
    def url(self) -> str:
        return self._objects.url

    def absolute(self, path: str) -> str:
        return f"{self.url}/{path}"

    def get(self, path: str) -> bytes:
        self._before("get", path)
        return self._objects.get(path)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self.get(path)[start : start + length]

    def head(self, path: str) -> ObjectInfo:
        self._before("head", path)
        return self._objects.info(path)

    def exists(self, path: str) -> bool:
        self._before("head", path)
        return path in self._objects.objects

    def create(self, path: str, data: Data) -> None:
        content = _bytes(data)
        self._change("create", path, lambda: self._objects.create(path, content))

    def put(self, path: str, data: Data) -> None:
        if threading.current_thread().name != self._actor.name:
            return  # A heartbeat by the real clock, on a machine that is busy: it is no step of the schedule.
        content = _bytes(data)
        self._change("put", path, lambda: self._objects.put(path, content))

    def delete(self, path: str) -> None:
        self._change("delete", path, lambda: self._objects.delete(path, self._actor.name))

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        yield from self._listed("list", prefix)

    def list_level(self, prefix: str = "") -> Level:
        listed = self._listed("list level", prefix)
        start = len(prefix) + 1 if prefix else 0
        level = Level(objects=[info for info in listed if info.path.rfind("/") < start])
        if len(level.objects) < len(listed):
            below = (info.path for info in listed if info.path.rfind("/") >= start)
            level.directories.extend(dict.fromkeys(path[: path.index("/", start)] for path in below))
        return level

    def _listed(self, what: str, prefix: str) -> Sequence[ObjectInfo]:
        self._before(what, prefix)
        world, chances = self._world, self._world.chances
        if prefix == ".hoodie/timeline":
            self._actor.looked = world.steps
        start = f"{prefix}/" if prefix else ""
        if self._may_be_stale(prefix) and world.rng.random() < chances.stale_list and self._fault("stale list", prefix):
            shown = self._stale()
            names: Sequence[str] = sorted(path for path in shown if path.startswith(start))
        else:
            shown, names = self._objects.objects, self._objects.under(start)
        if not (chances.torn_list and len(names) > 1 and world.rng.random() < chances.torn_list):
            return [shown[path].info for path in names]
        if not self._fault("pages of a list", prefix):
            return [shown[path].info for path in names]
        border = world.rng.choice(names)
        first = [shown[path].info for path in names if path < border]
        self._actor.turn_ends = world.steps
        world.pause(self._actor)
        return [*first, *(self._objects.info(path) for path in self._objects.under(start) if path >= border)]

    def _may_be_stale(self, prefix: str) -> bool:
        """Listings of the timeline and of our own objects are consistent on every store that is accepted."""
        return self._lists_stale and self._world.chances.stale_list > 0 and not prefix.startswith(_CONSISTENT)

    def _stale(self) -> dict[str, StoredObject]:
        rng, since = self._world.rng, self._world.steps - _STALE_STEPS
        shown = {
            path: found for path, found in self._objects.objects.items() if found.step < since or rng.random() < 0.5
        }
        for path, (found, step) in self._objects.deleted.items():
            if step >= since and path not in shown and rng.random() < 0.5:
                shown[path] = found
        return shown

    def _before(self, what: str, path: str) -> None:
        """A reading call: it can fail and it can be the last."""
        world, chances = self._world, self._world.chances
        outlasting = self._outlasting
        hit = outlasting if outlasting is not None and outlasting.hits(world, self._actor, what, path) else None
        if hit is not None and hit.place == "within":
            self._stand_still(hit, what, path)
        world.pause(self._actor)
        if hit is not None and hit.place == "after":
            self._stand_still(hit, what, path, now=True)
        if self._throttled:
            self._throttled -= 1
            self._fail(what, path, "throttled")
        chance = world.rng.random()
        if chance < chances.crash / 2:
            if self._fault("crash at", f"{what} {path}"):
                self._die()
        elif chance < (chances.crash + chances.unavailable) / 2 and self._fault("unavailable at", f"{what} {path}"):
            self._throttled = world.rng.choice((0, 0, 1, 3))
            self._fail(what, path, "unavailable")

    def _change(self, what: str, path: str, effect: Callable[[], None]) -> None:
        world, looked, asked = self._world, self._actor.looked, self._actor.asked
        if self._objects.watch is not None:
            effect = partial(self._watched, self._objects.watch, what, path, effect, (looked, asked))
        if world.outlived:
            self._outlive(what, path, effect)
        outlasting = self._outlasting
        hit = outlasting if outlasting is not None and outlasting.hits(world, self._actor, what, path) else None
        if hit is None:
            self._send(what, path, effect)
        elif hit.place == "after":
            try:
                self._send(what, path, effect)
            finally:
                if not self._actor.doomed:
                    self._stand_still(hit, what, path, now=True)
        else:
            self._outlast(hit, what, path, effect)
            self._send(what, path, effect)

    def _send(self, what: str, path: str, effect: Callable[[], None]) -> None:
        world, chances = self._world, self._world.chances
        if self._aim and world.rng.random() < self._aim:
            self._hit(what, path, effect)
        world.pause(self._actor)
        if self._throttled:
            self._throttled -= 1
            self._fail(what, path, "throttled")
        chance = world.rng.random()
        limit = chances.crash
        if chance < limit and self._fault("crash at", f"{what} {path}"):
            if chance < limit / 2:
                self._do_unheard(what, path, effect)
            self._die()
        limit += chances.unavailable
        if limit - chances.unavailable <= chance < limit and self._fault("unavailable at", f"{what} {path}"):
            if chance < limit - chances.unavailable / 2:
                self._do_unheard(what, path, effect)
            else:
                self._throttled = world.rng.choice((0, 0, 1, 3))
            self._fail(what, path, "unavailable")
        if self._lands_late and limit <= chance < limit + chances.late and self._fault("late", f"{what} {path}"):
            world.delay(f"{what} {path}", lambda: self._land(what, path, effect))
            if world.rng.random() < 0.5:
                self._die()
            self._fail(what, path, "timed out")
        self._do(what, path, effect)

    def _watched(self, watch: Watch, what: str, path: str, effect: Callable[[], None], steps: tuple[int, int]) -> None:
        watch.before(what, path, self._actor.name, *steps)
        effect()

    def _hit(self, what: str, path: str, effect: Callable[[], None]) -> None:
        """A pause without bound before the change, a change that comes late, or the end of the process around it."""
        world = self._world
        kind = world.rng.choice(("stall", "late", "late", "crash", "done and crash"))
        if world.aims_left <= 0 or (kind == "late" and not self._lands_late):
            return
        world.aims_left -= 1
        world.note(self._actor.name, "aimed fault", f"{kind}: {what} {path}")
        match kind:
            case "stall":
                if not self._actor.atomic:
                    world.stall(self._actor)
            case "late":
                world.delay(f"{what} {path}", lambda: self._land(what, path, effect), without_bound=True)
                if world.rng.random() < 0.7:
                    self._die()
                self._fail(what, path, "timed out")
            case "done and crash":
                self._do_unheard(what, path, effect)
                self._die()
            case _:
                self._die()

    def _do(self, what: str, path: str, effect: Callable[[], None]) -> None:
        try:
            effect()
        except Exception as error:
            self._world.note(self._actor.name, what, f"{path}: {type(error).__name__}")
            raise
        if what == "create":
            if _COMPLETED.fullmatch(path):
                self._world.counts["completes"] += 1
            if self._objects.watch is not None:
                self._objects.watch.created(path)
            self._objects.creators[path] = self._actor.name
            match = _ON_TIMELINE.match(path)
            if match is not None and match[1] <= self._objects.horizon:  # by a paused process, or a delayed request
                self._objects.put_back.add(match[1])
            if _DANGEROUS.search(path) or (self._aim and _DANGEROUS_TOO.search(path)):
                self._world.dangerous(self._actor, path, very=bool(self._aim))
        self._world.note(self._actor.name, what, path)

    def _do_unheard(self, what: str, path: str, effect: Callable[[], None]) -> None:
        """The effect without its answer, be it success or AlreadyExists."""
        with suppress(StorageError):
            self._do(what, path, effect)

    def _outlive(self, what: str, path: str, effect: Callable[[], None]) -> None:
        """The process dies, or takes the change for failed; it comes when newer instants have been archived."""
        world, match = self._world, _ON_TIMELINE.match(path)
        if match is None or not self._lands_late or world.rng.random() >= world.outlived:
            return
        if not self._fault("outlived", f"{what} {path}"):
            return

        def land() -> None:
            self._objects.put_back.add(match[1])
            self._land(what, path, effect)

        world.delay_until(f"{what} {path}", land, lambda: match[1] <= self._objects.horizon)
        if world.rng.random() < 0.5:
            self._die()
        self._fail(what, path, "timed out")

    def _outlast(self, outlasting: Outlasting, what: str, path: str, effect: Callable[[], None]) -> None:
        """The process stands still before the effect, or ends and the effect comes without it."""
        match outlasting.place:
            case "within":
                self._stand_still(outlasting, what, path, sent=True)
            case "alone":
                is_due = outlasting.late.begin(self._world, f"{self._actor.name}: {what} {path}", sent=True)
                self._world.delay_until(f"{what} {path}", lambda: self._land(what, path, effect), is_due)
                self._die()

    def _stand_still(
        self, outlasting: Outlasting, what: str, path: str, *, sent: bool = False, now: bool = False
    ) -> None:
        """From the next step on, or `now`: then it looks at its clock again before the next request. A pause between
        such a look and the request is one within the request.
        """
        world, where = self._world, "after" if now else "within"
        place = f"{where}: {self._actor.name}: {what} {path}"
        world.wait(self._actor, outlasting.late.begin(world, place, sent=sent), sent=sent)
        if now:
            world.pause(self._actor)

    def _land(self, what: str, path: str, effect: Callable[[], None]) -> None:
        """A delayed request takes effect, also if newer instants were archived long before."""
        match = _ON_TIMELINE.match(path)
        if match is not None and match[1] <= self._objects.horizon:
            self._world.counts["lands below the archive"] += 1
        self._do_unheard(what, path, effect)

    def _fault(self, kind: str, where: str) -> bool:
        if self._world.faults_left <= 0:
            return False
        self._world.faults_left -= 1
        self._world.note(self._actor.name, kind, where)
        return True

    def _die(self) -> None:
        self._actor.doomed = True
        raise Killed

    def _fail(self, what: str, path: str, why: str) -> None:
        raise StorageUnavailable(f"{self.url}/{path}: {what}: {why}; try again")


def _bytes(data: Data) -> bytes:
    if isinstance(data, pathlib.Path):
        return data.read_bytes()
    if isinstance(data, bytes):
        return data
    parts: Sequence[BytesLike] = data
    return b"".join(parts)
