"""Durations and quantities as Kubernetes writes them, read into Python numbers and written back."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

DURATION_PATTERN = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?$"
QUANTITY_PATTERN = r"^[0-9]{1,12}(\.[0-9]{1,6})?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"
CORES_PATTERN = r"^([1-9][0-9]{0,5}m|[1-9][0-9]{0,3}(\.[0-9]{1,3})?|0\.[0-9]{0,2}[1-9])$"

_DURATION = re.compile(r"([0-9]+)(ms|h|m|s)")
_DURATION_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SUFFIX_BYTES = {
    "": 1,
    **{suffix: 1000**power for power, suffix in enumerate(("k", "M", "G", "T", "P"), start=1)},
    **{suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)},
}


def parse_duration(text: str) -> timedelta:
    """The length of time that text such as `30s`, `5m`, `1h30m` or `250ms` names. Raises ValueError for another text:
    units are h, m, s, ms, in this order, each at most once.
    """
    if not text or not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m or 1h30m")
    return timedelta(
        milliseconds=sum(int(count) * _DURATION_MILLISECONDS[unit] for count, unit in _DURATION.findall(text))
    )


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back as the same length, to the millisecond."""
    rest = duration // timedelta(milliseconds=1)
    if rest < 0:
        raise ValueError(f"a duration cannot be negative: {duration}")
    parts = []
    for unit, size in _DURATION_MILLISECONDS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_quantity(text: str) -> int:
    """Bytes that a Kubernetes quantity such as `256Mi`, `2Gi` or `1.5G` stands for; fractions of a byte are dropped.
    Raises ValueError.
    """
    if not re.fullmatch(QUANTITY_PATTERN, text):
        raise ValueError(f"{text!r} is not a quantity such as 256Mi or 2Gi")
    number = text.rstrip("kKMGTPi")
    return int(Decimal(number) * _SUFFIX_BYTES[text[len(number) :]])


def format_quantity(size_bytes: int) -> str:
    """The quantity with the largest binary unit that holds the bytes without a remainder."""
    if size_bytes < 0:
        raise ValueError(f"a quantity cannot be negative: {size_bytes}")
    for suffix in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        if size_bytes and size_bytes % _SUFFIX_BYTES[suffix] == 0:
            return f"{size_bytes // _SUFFIX_BYTES[suffix]}{suffix}"
    return str(size_bytes)


def parse_cores(text: str) -> int:
    """Thousandths of a CPU core that `2`, `0.5` or `500m` stands for. Raises ValueError, also for zero."""
    if not re.fullmatch(CORES_PATTERN, text):
        raise ValueError(f"{text!r} is not a number of CPU cores such as 2, 0.5 or 500m")
    return int(text[:-1]) if text.endswith("m") else int(Decimal(text) * 1000)


def format_cores(millicores: int) -> str:
    """The number of cores as Kubernetes writes it: whole cores plainly, else thousandths (`500m`)."""
    if millicores <= 0:
        raise ValueError(f"cores must be positive: {millicores}m")
    return str(millicores // 1000) if millicores % 1000 == 0 else f"{millicores}m"
