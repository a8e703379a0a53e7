"""The work that keeps the table fast to read: when the job does it, and what is due."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.scalars import DurationText, Whole


class Compaction(SpecModel):
    """When the log files of a file group are merged into a base file: one of these is enough."""

    log_age: Annotated[timedelta, DurationText("1m", "720h")] = Field(
        default=timedelta(hours=1),
        alias="logAge",
        description="Age of the oldest log file; 1m to 720h. A read-optimized query is at most about so far behind.",
    )
    log_files: Whole = Field(
        default=50,
        alias="logFiles",
        description="Number of log files. A snapshot query opens all of them.",
        ge=2,
        le=10_000,
    )
    log_percent: Whole = Field(
        default=50,
        alias="logPercent",
        description="Bytes of the log files in percent of those of the base file. A snapshot query merges all of them.",
        ge=1,
        le=10_000,
    )


class Clean(SpecModel):
    """How long files stay that a compaction has superseded."""

    retain: Annotated[timedelta, DurationText("1h", "8760h")] = Field(
        default=timedelta(hours=24),
        description="Time for which the files of an older version stay; 1h to 8760h. A query must not run longer, and "
        "time travel reaches so far back.",
    )


class Services(SpecModel):
    """Table services: what Hudi's own jobs would otherwise do beside the pipeline."""

    mode: Literal["inline", "off"] | None = Field(
        default=None,
        description="inline: the driver compacts, cleans and archives the table in a process beside the query, at low "
        "priority. off (when absent): nothing; use it where Hudi's own table services run.",
    )
    compaction: Compaction = Field(default=Compaction(), description="When log files are merged into base files.")
    clean: Clean = Field(default=Clean(), description="How long superseded files stay.")

    @property
    def runs_inline(self) -> bool:
        """Whether the job carries table services out."""
        return self.mode == "inline"
