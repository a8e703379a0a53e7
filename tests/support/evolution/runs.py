"""Plays several chains, each on a table of its own; with real judges, all tables are read by Spark at the end."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devservers.registry import SchemaRegistry
from support.evolution.chains import Chain, FormatName
from support.evolution.formats import FORMATS
from support.evolution.hudis_writer import HudisWriter
from support.evolution.process import Played, played
from support.evolution.reads import wrong_in_spark
from support.evolution.registries import Real
from support.oracle.client import HudiOracle

_IN_MEMORY: Final = next((each for each in ("/dev/shm",) if Path(each).is_dir()), None)
"""Where tables are written and read at once."""


@dataclass(frozen=True)
class Judges:
    """A real registry, and Hudi."""

    registry: SchemaRegistry
    oracle: HudiOracle


def played_all(numbers: Iterable[int], judges: Judges | None = None) -> Iterator[tuple[int, Played | Exception]]:
    """What became of the chains with these numbers, in turns of the formats."""
    results: dict[int, Played | Exception] = {}
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as folder:
        for number in numbers:
            path = Path(folder, str(number))
            path.mkdir()
            try:
                results[number] = _played(path, number, judges)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a chain that failed
                results[number] = error
        if judges is not None:
            reads = [each.reads for each in results.values() if isinstance(each, Played) and each.reads]
            for path, why in wrong_in_spark(judges.oracle, reads).items():
                results[int(path.name)] = AssertionError(why)
    yield from results.items()


def _played(path: Path, number: int, judges: Judges | None) -> Played:
    names: list[FormatName] = list(FORMATS)
    seed, format_ = number // len(names), names[number % len(names)]
    if judges is None:
        return played(path, seed, format_)
    registry = Real(judges.registry, f"{number}-value", FORMATS[format_], Chain.of(seed, format_).mode)
    return played(path, seed, format_, registry, HudisWriter(judges.oracle, random.Random(f"hudi {number}")))
