"""Reads from a table what the report needs: a few listings, its commits, a few small files; no data file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from bucketingest.hudi.bucket_rules.hashing_config import HashingConfig, load_config
from bucketingest.hudi.damage.look import DamageLook, look_for_damage
from bucketingest.hudi.errors import InvalidTable, UnsupportedTable
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.checks import version_refusals
from bucketingest.hudi.table.file_view import FileView, load_file_view
from bucketingest.hudi.table.table import HoodieTable, load_table
from bucketingest.hudi.table.time_zone import offset_from_utc
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, WRITE_ACTIONS, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.index.state.store import keeps_state
from bucketingest.storage import NotFound, Storage
from bucketingest.write.instants.journal import ROOT
from bucketingest.write.instants.taken_out import overtaken
from bucketingest.write.pipeline_names import NOT_PIPELINES, PIPELINE, pipeline_of
from bucketingest.write.recovery.facts import FactReader, Facts

DAMAGED_SHOWN: Final = 10
"""Damaged files of which a finding tells everything."""
_SEARCHED_COMMITS: Final = 100
"""How many of the newest commits are opened to find a pipeline's last one."""


@dataclass(frozen=True, slots=True)
class Coordinated:
    """What `.hoodie/.bucketingest/<pipeline>` holds."""

    pipeline: str
    epoch: int | None
    claimant: str | None
    open_instants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table at one moment."""

    table: HoodieTable
    now: datetime
    timeline: Timeline
    view: FileView
    replaced: frozenset[tuple[str, str]] = frozenset()
    """(partition path, file id) of file groups that a replacecommit took out of the table."""
    commits: Mapping[str, CommitMetadata] = field(default_factory=dict)
    """Request time -> metadata, of the newest commits, of each pipeline's last, and of those with damaged files."""
    inflight: Mapping[str, CommitMetadata] = field(default_factory=dict)
    """Request time -> metadata of the inflight file, of pending deltacommits."""
    heartbeats: Mapping[str, datetime] = field(default_factory=dict)
    """Request time -> last heartbeat, of pending instants that have one."""
    coordinated: tuple[Coordinated, ...] = ()
    facts: Mapping[str, Facts] = field(default_factory=dict)
    """Request time -> what is known of it, of pending instants."""
    has_state: bool = False
    """Whether keys are looked up in a state."""
    damage: DamageLook = field(default_factory=DamageLook)
    bucket_rules: HashingConfig | None = None
    """The rules that count."""
    unreadable_rules: str | None = None
    """Why they cannot be read."""
    zone_offset: timedelta = timedelta()
    """How far the instants' times are ahead of UTC."""


def read_snapshot(storage: Storage, *, instants: int) -> TableSnapshot:
    """Read the table. `instants`: how many of the newest instants are opened.

    Raises TableNotFound, InvalidTable, UnsupportedTable (a timeline of another layout), and what storage raises.
    """
    table = load_table(storage)
    reasons = version_refusals(table.properties)
    if (layout := table.properties.get("hoodie.timeline.layout.version")) != "2":
        reasons.append(
            f"hoodie.timeline.layout.version={layout or '(missing)'}: only timelines of layout 2 can be read"
        )
    if reasons:
        raise UnsupportedTable(storage.url, reasons)
    listing = storage.list_level(TIMELINE_DIRECTORY).objects
    timeline = Timeline.of_file_names(info.path.rpartition("/")[2] for info in listing)
    coordinated = _coordinated(storage)
    bucket_rules, unreadable_rules = _bucket_rules(storage)
    view, replaced = load_file_view(storage, timeline), replaced_file_groups(storage, timeline)
    damage = look_for_damage(storage, timeline, view, replaced, overtaken)
    wanted = {each.file.instant for each in damage.damaged[:DAMAGED_SHOWN]}
    return TableSnapshot(
        table=table,
        now=datetime.now(UTC),
        timeline=timeline,
        view=view,
        replaced=replaced,
        commits=_commits(storage, timeline, instants, {each.pipeline for each in coordinated}, wanted),
        inflight=_inflight(storage, timeline),
        heartbeats={
            instant.request_time: beat
            for instant in timeline.pending
            if (beat := heartbeat.last_beat(storage, instant.request_time)) is not None
        },
        coordinated=coordinated,
        facts=_facts(storage, timeline, coordinated),
        has_state=keeps_state(table),
        damage=damage,
        bucket_rules=bucket_rules,
        unreadable_rules=unreadable_rules,
        zone_offset=offset_from_utc(listing) or timedelta(),
    )


def _bucket_rules(storage: Storage) -> tuple[HashingConfig | None, str | None]:
    try:
        return load_config(storage), None
    except InvalidTable as error:
        return None, str(error)


def _facts(storage: Storage, timeline: Timeline, coordinated: tuple[Coordinated, ...]) -> dict[str, Facts]:
    reader = FactReader(storage, timeline)
    owners = {time: each.pipeline for each in coordinated for time in each.open_instants}
    times = (instant.request_time for instant in timeline.pending)
    return {time: reader.facts(time, owners.get(time)) for time in times}


def _commits(
    storage: Storage, timeline: Timeline, count: int, pipelines: set[str], wanted: set[str]
) -> dict[str, CommitMetadata]:
    """Metadata of the newest commits, further back only as long as a pipeline's last commit is missing; and of the
    wanted ones.
    """
    result: dict[str, CommitMetadata] = {}
    missing = set(pipelines)
    for number, instant in enumerate(reversed(timeline.completed_commits)):
        if number >= count and (not missing or number >= _SEARCHED_COMMITS):
            break
        if instant.action not in WRITE_ACTIONS:
            continue
        metadata = _read(storage, instant)
        if metadata is not None:
            result[instant.request_time] = metadata
            missing.discard(metadata.extra_metadata.get(PIPELINE, ""))
    others = (each for each in timeline.completed_commits if each.request_time in wanted - result.keys())
    return result | {each.request_time: found for each in others if (found := _read(storage, each)) is not None}


def _inflight(storage: Storage, timeline: Timeline) -> dict[str, CommitMetadata]:
    found = (
        (instant.request_time, _read(storage, instant))
        for instant in timeline.pending
        if instant.action == DELTA_COMMIT and instant.state is State.INFLIGHT
    )
    return {time: metadata for time, metadata in found if metadata is not None}


def _read(storage: Storage, instant: Instant) -> CommitMetadata | None:
    path = path_of(instant)
    try:
        return CommitMetadata.decode(storage.get(path), path)
    except NotFound:  # archived, completed or rolled back since the listing
        return None


def _coordinated(storage: Storage) -> tuple[Coordinated, ...]:
    directories = sorted(storage.list_level(ROOT).directories)
    return tuple(_pipeline(storage, path) for path in directories if path.rpartition("/")[2] not in NOT_PIPELINES)


def _pipeline(storage: Storage, root: str) -> Coordinated:
    epochs = [info.path for info in storage.list_level(f"{root}/epoch").objects]
    newest = max((path for path in epochs if path.rpartition("/")[2].isdigit()), default=None)
    claimant = None
    if newest is not None:
        try:
            claimant = str(json.loads(storage.get(newest)).get("claimant"))
        except (NotFound, ValueError):
            claimant = None
    instants = sorted(storage.list_level(f"{root}/instants").directories)
    return Coordinated(
        pipeline=pipeline_of(root.rpartition("/")[2]),
        epoch=None if newest is None else int(newest.rpartition("/")[2]),
        claimant=claimant,
        open_instants=tuple(path.rpartition("/")[2] for path in instants if not storage.exists(f"{path}/done")),
    )
