"""What the records of all table services share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.write.record_format import complete, decode, encode

FORMAT_VERSION: Final = 1
"""Of plans, rounds and results. Counts up whenever an older release would misread one."""
OURS: Final = "bucketingest.services"
"""Key of a plan's and a commit's extra metadata: it is ours."""
HEARTBEAT: Final = b"bucketingest"
"""Content of our heartbeats; Hudi's are empty."""


class End(StrEnum):
    """How a plan ended."""

    COMPLETED = "completed"
    GONE = "gone"
    """Another writer took it off the timeline, as a restore does."""
    VOID = "void"
    """It never was on the timeline, or nobody may carry it out: the table's files are as they were."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one operation of a plan: the statistics of its base file, or why there is none."""

    stat: WriteStat | None
    failed: str | None = None


def encode_results(results: Sequence[Result]) -> bytes:
    """The results of a chunk's operations, in their order."""
    stored = [{"failed": each.failed} if each.stat is None else {"stat": each.stat.to_avro()} for each in results]
    return encode(FORMAT_VERSION, {"results": stored})


def decode_results(data: bytes, where: str) -> tuple[Result, ...]:
    """As `encode_results` made it. Raises NewerFormat and InvalidTable."""
    record, _ = decode(data, where, FORMAT_VERSION)
    with complete(where):
        return tuple(
            Result(WriteStat.from_avro(each["stat"]) if "stat" in each else None, each.get("failed"))
            for each in record["results"]
        )
