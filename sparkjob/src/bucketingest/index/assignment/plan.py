"""The recorded plan of a micro-batch: everything that decides which file id a key gets, except the keys themselves."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from bucketingest.hudi.table.table import InsertMode
from bucketingest.index.assignment.open_groups import (
    InsertRules,
    OpenGroup,
    WriteProfile,
    open_groups,
    ranges,
    unknown_partition_groups,
)
from bucketingest.index.errors import StateDamaged
from bucketingest.index.state.envelope import sealed, unsealed


@dataclass(frozen=True, slots=True)
class AssignmentPlan:
    """Build it with `of`. Equal plans assign all keys alike."""

    table: str
    instant: str
    sequence: int
    """Of the micro-batch within the instant."""
    mode: InsertMode
    tasks: int
    """Write tasks of the attempt that made it. One with another number makes a plan of its own."""
    seed: str
    """Of the key hashes, as hexadecimal text."""
    runs: tuple[str, ...]
    """The state's runs, newest first."""
    generations: Mapping[str, int]
    """Partition path to its generation in these runs: the partitions that are covered."""
    view: str
    """The newest completion time of the table that the state knows."""
    unknown_groups: int
    """Open groups of a partition that `open` does not have."""
    open: Mapping[str, tuple[OpenGroup, ...]] = field(default_factory=dict)
    """By partition path, ordered by hashes."""
    unloaded: frozenset[str] = frozenset()
    """Partition paths that have keys which are in no run: rows of them must wait until these are loaded."""
    is_global: bool = False
    """Whether a key is in one partition only; then the state has the table as one partition, `WHOLE_TABLE`."""

    @classmethod
    def of(
        cls,
        profile: WriteProfile,
        rules: InsertRules,
        *,
        table: str,
        instant: str,
        sequence: int,
        seed: bytes,
        runs: tuple[str, ...] = (),
        generations: Mapping[str, int] | None = None,
        view: str = "",
        unloaded: frozenset[str] = frozenset(),
        is_global: bool = False,
    ) -> Self:
        """The plan for this profile. Pure: the order in which a listing found partitions and groups does not count."""

        def new(partition_path: str, number: int) -> str:
            return new_file_id(table, instant, sequence, partition_path, number)

        return cls(
            table=table,
            instant=instant,
            sequence=sequence,
            mode=rules.mode,
            tasks=rules.tasks,
            seed=seed.hex(),
            runs=runs,
            generations=dict(generations or {}),
            view=view,
            unknown_groups=unknown_partition_groups(len(profile.partitions), rules.tasks),
            open={path: open_groups(profile, path, rules, new) for path in sorted(profile.partitions)},
            unloaded=unloaded,
            is_global=is_global,
        )

    def open_in(self, partition_path: str) -> tuple[OpenGroup, ...]:
        """The open groups of any partition."""
        known = self.open.get(partition_path)
        if known is not None:
            return known
        ids = (
            new_file_id(self.table, self.instant, self.sequence, partition_path, number)
            for number in range(self.unknown_groups)
        )
        return ranges([(file_id, 1) for file_id in ids])

    def encode(self, table_id: bytes) -> bytes:
        """The object's bytes; equal plans have equal bytes, and `digest_of` them names the object."""
        content = {
            "table": self.table,
            "instant": self.instant,
            "sequence": self.sequence,
            "mode": self.mode,
            "tasks": self.tasks,
            "seed": self.seed,
            "runs": list(self.runs),
            "generations": dict(self.generations),
            "view": self.view,
            "unknownGroups": self.unknown_groups,
            "open": {path: [[each.file_id, each.first] for each in groups] for path, groups in self.open.items()},
        } | ({"global": True} if self.is_global else {})
        if not self.unloaded:
            return sealed("plan", content, table_id)
        # To an older release all keys of these partitions would be new.
        return sealed("plan", content | {"unloaded": sorted(self.unloaded)}, table_id, version=2)

    @classmethod
    def decode(cls, data: bytes, table_id: bytes, *, source: str) -> Self:
        """Raises StateDamaged, StateForeign, StateTooNew: then the micro-batch cannot be repeated."""
        content: Any = unsealed("plan", data, table_id, source=source)
        try:
            return cls(
                table=content["table"],
                instant=content["instant"],
                sequence=content["sequence"],
                mode=content["mode"],
                tasks=content["tasks"],
                seed=content["seed"],
                runs=tuple(content["runs"]),
                generations=content["generations"],
                view=content["view"],
                unknown_groups=content["unknownGroups"],
                open={
                    path: tuple(OpenGroup(file_id, first) for file_id, first in groups)
                    for path, groups in content["open"].items()
                },
                unloaded=frozenset(content.get("unloaded", ())),
                is_global=content.get("global", False),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateDamaged(f"{source}: it is not an assignment plan: {error!r}") from error


def digest_of(data: bytes) -> str:
    """Names a plan's object."""
    return hashlib.sha256(data).hexdigest()


def new_file_id(table: str, instant: str, sequence: int, partition_path: str, number: int) -> str:
    """File id of a new file group, in the form of Hudi's: a UUID and `-0`. Every process computes the same one.

    The parts are joined with their lengths, so no two different lists of them are the same text.
    """
    parts = (table, instant, str(sequence), partition_path, str(number))
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return f"{uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16])}-0"
