"""What a running query needs from the resource, so that a user's own DataFrame can run without one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal, Self

from bucketingest.catalog.sync import Target
from bucketingest.catalog.targets import targets
from bucketingest.decode.decoder_choice import delete_predicate
from bucketingest.hudi.bucket_rules.counts import BucketRule
from bucketingest.hudi.lock.hudi_lock import LockSettings
from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.schema_evolution import Evolution
from bucketingest.hudi.table.table import StateRules, TableDefinition
from bucketingest.lease.record import DEFAULT_VALIDITY
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import DEFAULT_RETENTION, Retention
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.placement import ServicesPolicy
from bucketingest.spec.fields.spark import Spark
from bucketingest.spec.fields.table import DEFAULT_TARGET_FILE_SIZE, Index
from bucketingest.spec.model import BucketIngest, BucketIngestSpec
from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.beginning import beginning_of
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.open_table import OpenTable
from bucketingest.write.plan import WritePlan

SHORT_INTERVAL: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One table and how it is written. `of` makes it from a BucketIngest; users with their own DataFrame make it
    directly.
    """

    name: str
    """Identity of the pipeline: commits carry it, and a later start continues where the last commit of this name ended.
    """
    table_url: str
    definition: TableDefinition
    checkpoint_url: str
    """Root of the directories of Spark's checkpoint."""
    beginning: str | None = None
    """What decides the offsets of Kafka's first start, see `beginning_of`."""
    delete_when: str | None = None
    """SQL predicate: a row for which it is true deletes its key."""
    log_block: LogBlock | None = None
    """None: what readers merge rightly."""
    drops_metadata_table: bool = False
    """Whether Hudi's metadata table is dropped; else a table with it is refused."""
    evolution: Evolution = "follow"
    """Which columns a table may get."""
    memory_bytes: int = 256 * 1024**2
    """Memory budget of one write task."""
    write_tasks: int | None = None
    """None: as many as the session runs at once."""
    dead_letters_url: str | None = None
    """Base path of the dead-letter table; None: a row that cannot be written fails the query."""
    trigger: timedelta | Literal["once"] = timedelta(seconds=2)
    """Time between starts of micro-batches; zero: as fast as it can; once: all available input, then stop."""
    offsets_max: int | None = None
    """Kafka: most offsets of a micro-batch; None: another source, or it is not known."""
    is_quick: bool = False
    """Whether commits are less than `SHORT_INTERVAL` apart. Each micro-batch is an instant then, and this process plans
    those of Kafka, and writes the small ones, itself.
    """
    commit_interval: timedelta | None = None
    """Time after which an instant is committed; None: each micro-batch is an instant of its own."""
    max_files: int = 100_000
    """Files of an instant at which it is committed before its interval has passed."""
    lock: LockSettings = field(default_factory=LockSettings)
    """Hudi's lock of the table."""
    lease_validity: timedelta = DEFAULT_VALIDITY
    """After this long without renewal another job may take the table."""
    lease_wait: timedelta = timedelta(minutes=2)
    """Longest wait for a table that another job holds."""
    compaction: CompactionTriggers | None = None
    """When the job compacts the table; None: it carries no table service out."""
    clustering: ClusteringTriggers | None = None
    """When the job merges small file groups; None: they stay."""
    retention: Retention = DEFAULT_RETENTION
    """Which superseded files stay."""
    archive: ArchiveRules = field(default_factory=ArchiveRules)
    """How many commits stay on the active timeline."""
    services: ServicesPolicy = field(default_factory=ServicesPolicy)
    """Where compactions are merged."""
    max_commit_retries: int = 5
    executors: tuple[int, int] | None = None
    """The least and the most, between which the job chooses; None: their number is fixed."""
    work: str | None = None
    """All that the resource says about which rows are written, and how, as text. None: it is not known whether two
    attempts would write the same, as with a user's own DataFrame; then no attempt resumes another's micro-batch.
    """
    catalogs: tuple[Target, ...] = ()
    """Catalogs that are kept up to date beside the query."""
    storage_options: dict[str, str] = field(default_factory=dict)
    """For the table and the dead letters, and for the checkpoint unless it is a local directory."""

    def checkpoint_directory(self, directory: str = "") -> str:
        """URL of a directory below the checkpoint's."""
        return f"{self.checkpoint_url.rstrip('/')}/{directory}" if directory else self.checkpoint_url

    def checkpoint(self, directory: str = "") -> Storage:
        """The directory of Spark's checkpoint, or one below it."""
        local = "://" not in self.checkpoint_url or self.checkpoint_url.startswith("file:")
        return open_storage(self.checkpoint_directory(directory), None if local else self.storage_options)

    def plan(self, opened: OpenTable, assignment: Assignment, tasks: int) -> WritePlan:
        """What the write tasks of a micro-batch are given."""
        return opened.plan(
            assignment,
            pipeline=self.name,
            tasks=tasks,
            memory_bytes=self.memory_bytes,
            storage_options=self.storage_options,
            dead_letters_url=self.dead_letters_url,
        )

    @classmethod
    def of(cls, resource: BucketIngest) -> Self:
        """The pipeline that the resource describes."""
        spec = resource.spec
        table = spec.table
        return cls(
            name=resource.pipeline,
            table_url=table.path,
            definition=TableDefinition(
                name=resource.table_name,
                record_key=resource.record_key,
                partition_fields=table.partition_by,
                ordering_field=table.ordering_field,
                buckets=table.index.buckets,
                bucket_rules=_bucket_rules(table.index),
                hash=table.index.hash,
                hash_fields=resource.hash_fields,
                state=_state_rules(table.index),
                version=table.version,
                hive_style_partitioning=table.hive_style_partitioning,
                properties=table.properties,
                fills_unavailable=resource.keeps_unavailable,
            ),
            checkpoint_url=resource.checkpoint_path,
            beginning=beginning_of(spec.source.kafka),
            delete_when=delete_predicate(resource),
            log_block=table.log_block,
            drops_metadata_table=table.metadata_table == "drop",
            evolution=spec.schema_evolution.mode,
            memory_bytes=table.memory_per_task,
            write_tasks=table.write_tasks,
            dead_letters_url=resource.dead_letter_path,
            trigger=_trigger(spec),
            offsets_max=None if spec.source.kafka is None else spec.source.kafka.max_offsets_per_trigger,
            lock=LockSettings(table.lock.provider, table.lock.wait_timeout, table.lock.lease_validity),
            lease_validity=table.lock.lease_validity,
            lease_wait=table.lock.held_timeout if table.lock.on_held == "wait" else timedelta(0),
            is_quick=_is_quick(spec),
            commit_interval=None if _commits_each(spec) else spec.commit.interval,
            max_files=spec.commit.max_files,
            compaction=CompactionTriggers.of(spec.services, spec.slo) if spec.services.run else None,
            clustering=_clustering(spec),
            retention=Retention.of(spec.services.clean),
            archive=ArchiveRules.of(spec.services.archive),
            services=ServicesPolicy(spec.services.chosen_mode),
            catalogs=targets(resource),
            max_commit_retries=spec.commit.max_retries,
            executors=_executors(spec.spark),
            work=spec.model_dump_json(include={"source", "format", "transform", "table"}),
        )


def _bucket_rules(index: Index) -> tuple[BucketRule, ...] | None:
    if index.partition_buckets is None:
        return None
    return tuple(BucketRule(rule.pattern, rule.buckets) for rule in index.partition_buckets)


def _state_rules(index: Index) -> StateRules | None:
    if index.type != "state":
        return None
    return StateRules(
        index.target_file_size or DEFAULT_TARGET_FILE_SIZE,
        index.on_duplicate_keys == "report",
        index.inserts or "base",
        is_global=bool(index.is_global),
    )


def _is_quick(spec: BucketIngestSpec) -> bool:
    return spec.commit.mode == "interval" and spec.commit.interval < SHORT_INTERVAL


def _commits_each(spec: BucketIngestSpec) -> bool:
    """Whether each micro-batch is an instant. With new keys in base files a second one would make further small files
    of the first one's keys, or put keys into log files, where Hudi's BLOOM and SIMPLE indexes do not look.
    """
    return spec.commit.mode != "interval" or _makes_bases(spec.table.index) or _is_quick(spec)


def _executors(spark: Spark) -> tuple[int, int] | None:
    most = spark.executor.max_instances
    return None if most is None else (spark.executor.instances, most)


def _makes_bases(index: Index) -> bool:
    return index.type == "state" and index.inserts != "log"


def _trigger(spec: BucketIngestSpec) -> timedelta | Literal["once"]:
    """Where each micro-batch is an instant, and there is a commit interval, that is between them."""
    trigger = spec.commit.trigger
    if trigger == "once" or spec.commit.mode != "interval" or not _commits_each(spec):
        return trigger
    return max(trigger, spec.commit.interval)


def _clustering(spec: BucketIngestSpec) -> ClusteringTriggers | None:
    state, wanted = _state_rules(spec.table.index), spec.services.clustering
    if state is None or not spec.services.run or not wanted.enabled:
        return None
    return ClusteringTriggers(state.target_bytes, wanted.small_percent, wanted.min_groups)
