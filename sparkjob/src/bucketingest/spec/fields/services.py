"""The work that keeps the table fast to read: when the job does it, and what is due."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.scalars import Whole, bytes_text, cores_text, duration_text


def _off(value: object) -> object:
    """YAML 1.1 reads an unquoted off as false."""
    return "off" if value is False else value


ServicesMode = Literal["auto", "inline", "job", "off"]
DEFAULT_MODE: Final[ServicesMode] = "auto"
"""What a resource means that names no mode."""
DEFAULT_RETAIN: Final = timedelta(hours=24)
"""How long superseded files stay if a resource says nothing of it."""


class CompactionJob(SpecModel):
    """The Kubernetes Job that merges. Its pods are small Python processes without Spark."""

    parallelism: Whole = Field(default=2, description="Number of pods.", ge=1, le=100)
    cores: Annotated[int, cores_text("100m", "16")] = Field(
        default=1000, description='CPU that one pod requests in cores, such as "1" or "500m". It uses about one.'
    )
    memory: Annotated[int, bytes_text("512Mi", "64Gi")] = Field(
        default=2 * 1024**3, description="Memory of one pod in bytes, such as 2Gi."
    )
    deadline: Annotated[timedelta, duration_text("10m", "20h")] = Field(
        default=timedelta(hours=6),
        description="Longest time of one Job; 10m to 20h. Then another one continues its work.",
    )
    retries: Whole = Field(default=6, description="Pods that may fail before the Job counts as failed.", ge=0, le=100)
    keep: Annotated[timedelta, duration_text("1m", "168h")] = Field(
        default=timedelta(hours=1), description="Time for which an ended Job and its logs stay; 1m to 168h."
    )


class Compaction(SpecModel):
    """When the log files of a file group are merged into a base file: one of these is enough."""

    log_age: Annotated[timedelta, duration_text("1m", "720h")] = Field(
        default=timedelta(hours=1),
        description="Age of the oldest log file; 1m to 720h. A read-optimized query is at most about so far behind.",
    )
    log_files: Whole = Field(
        default=50, description="Number of log files. A snapshot query opens all of them.", ge=2, le=10_000
    )
    log_percent: Whole = Field(
        default=50,
        description="Cost of reading the log files (their bytes, and 1 MiB for each) in percent of that of writing the "
        "base file (its bytes, and 8 MiB). So small file groups are compacted after a few log files.",
        ge=1,
        le=10_000,
    )
    job: CompactionJob = Field(
        default=CompactionJob(), description="Size and limits of the Job, where one merges (mode job, or auto)."
    )


class Clean(SpecModel):
    """How long files stay that a compaction has superseded: for a time, or until there are newer versions."""

    retain: Annotated[timedelta, duration_text("1h", "8760h")] | None = Field(
        default=None,
        description="Time for which the files of an older version stay; 1h to 8760h (default: 24h, unless versions is "
        "given). A query must not run longer, and time travel reaches so far back.",
    )
    versions: Whole | None = Field(
        default=None,
        description="Instead of retain: number of the newest versions of each file group that stay, whatever their "
        "age. A query must end before so many compactions.",
        ge=1,
        le=1000,
    )

    @property
    def chosen_retain(self) -> timedelta | None:
        """The time of the resource, or the default; None: by versions."""
        return self.retain or (DEFAULT_RETAIN if self.versions is None else None)


class Archive(SpecModel):
    """How many commits stay on the active timeline. Older ones go to Hudi's archived history."""

    commits: Whole = Field(
        default=20,
        description="Number of the newest commits that stay, whatever their age. With more, starts and queries list "
        "more files.",
        ge=20,
        le=100_000,
    )
    retain: Annotated[timedelta, duration_text("1m", "8760h")] = Field(
        default=timedelta(hours=1),
        description="Time for which a commit stays at least; 1m to 8760h. For readers that follow the table's commits "
        "and do not read the archived history.",
    )


class Clustering(SpecModel):
    """When small file groups of a partition become one, in a table with table.index.type state."""

    enabled: bool = Field(
        default=False,
        description="Whether they are merged. Each micro-batch makes a new file group in each partition that gets new "
        "keys; else these stay as small as they were made.",
    )
    small_percent: Whole = Field(
        default=50,
        description="Part of table.index.targetFileSize below which a file group is small, in percent.",
        ge=1,
        le=90,
    )
    min_groups: Whole = Field(
        default=10,
        description="Number of small file groups of about the same size that are merged. Fewer are merged if together "
        "they reach the target size.",
        ge=2,
        le=1000,
    )


class Services(SpecModel):
    """Table services: what Hudi's own jobs would otherwise do beside the pipeline."""

    mode: Annotated[ServicesMode | None, BeforeValidator(_off)] = Field(
        default=None,
        description="inline: the driver compacts, cleans and archives the table in a process beside the query, at low "
        "priority. job: the same, but on Kubernetes the pods of a Job merge. auto (when absent): a Job for large "
        "compactions, else inline; it does not compact where Hudi compacts, and does not clean or archive where Hudi "
        "cleans. off: nothing; use it where Hudi's own table services run.",
    )
    compaction: Compaction = Field(default=Compaction(), description="When log files are merged into base files.")
    clustering: Clustering = Field(
        default=Clustering(),
        description="When small file groups are merged; only in a table with table.index.type state.",
    )
    clean: Clean = Field(default=Clean(), description="How long superseded files stay.")
    archive: Archive = Field(default=Archive(), description="How many commits stay on the active timeline.")
    while_suspended: bool = Field(
        default=False,
        description="Whether a Job of the operator does once a day what is due while spec.suspend is true.",
    )

    @property
    def chosen_mode(self) -> ServicesMode:
        """The mode of the resource, or the default."""
        return self.mode or DEFAULT_MODE

    @property
    def run(self) -> bool:
        """Whether the job carries table services out."""
        return self.chosen_mode != "off"
