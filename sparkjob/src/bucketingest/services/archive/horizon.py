"""How far a table was archived by us, recorded before the first file leaves its timeline: what is older and on the
timeline again was put back by a paused process.
"""

from __future__ import annotations

import json
from typing import Final

from bucketingest.hudi.errors import InvalidTable, TimelineError
from bucketingest.hudi.history.writer import Check
from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.storage import NotFound, Storage, created, object_names

HORIZONS: Final = f"{OWN_DIRECTORY}/services/archive"
KEPT: Final = 3
_TRIES_MAX: Final = 8


def read_horizon(storage: Storage) -> str:
    """Greatest request time that was ever archived by us; "" if nothing was. Raises InvalidTable."""
    return max((_horizon(storage, number) for number in _numbers(storage)), default="")


def raise_horizon(storage: Storage, horizon: str, check: Check) -> None:
    """Record that everything up to this request time is in the history. It never goes down.

    Raises TimelineError if other processes keep taking the next number.
    """
    for _ in range(_TRIES_MAX):
        numbers = _numbers(storage)
        known = max((_horizon(storage, number) for number in numbers), default="")
        if horizon <= known:
            return
        number = max(numbers, default=0) + 1
        check()
        if not created(storage, _path(number), json.dumps({"horizon": horizon}).encode()):
            continue
        storage.delete_many([_path(old) for old in numbers if old <= number - KEPT])
        return
    raise TimelineError(f"{storage.url}/{HORIZONS}: other processes archive this table: only one may")


def _horizon(storage: Storage, number: int) -> str:
    path = _path(number)
    try:
        return str(json.loads(storage.get(path))["horizon"])
    except NotFound:  # deleted since it was listed: newer ones are there
        return ""
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidTable(f"{storage.url}/{path} is broken ({error}): delete it") from error


def _numbers(storage: Storage) -> list[int]:
    return [int(name) for name in object_names(storage, HORIZONS) if name.isdecimal()]


def _path(number: int) -> str:
    return f"{HORIZONS}/{number:012d}"
