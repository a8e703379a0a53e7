"""The bucket count of each partition: the first rule whose pattern is found in the partition path, else the default.

As Hudi 1.2.0 decides (`PartitionBucketIndexCalculator`, `RegexRuleEngine`); tests compare with these classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.naming import BUCKET_MAX
from bucketingest.spec.partition_pattern import InvalidPattern, read_pattern

_NONE: Final = np.iinfo(np.int64).max
FOUND_MAX: Final = 100_000
"""Partitions whose counts are remembered."""


@dataclass(frozen=True, slots=True)
class BucketRule:
    """Partitions in whose path the pattern is found have so many buckets."""

    pattern: str
    buckets: int


@dataclass(frozen=True)
class BucketCounts:
    """The bucket count of every partition of a table, existing or not. Picklable."""

    default: int
    rules: tuple[BucketRule, ...] = ()

    def __reduce__(self) -> tuple[type[BucketCounts], tuple[int, tuple[BucketRule, ...]]]:
        """Tasks get the rules, not what was found with them."""
        return type(self), (self.default, self.rules)

    def of(self, partition_path: str) -> int:
        """The partition's bucket count."""
        return int(self.of_all([partition_path])[0]) if self.rules else self.default

    def of_all(self, partition_paths: Sequence[str]) -> npt.NDArray[np.int32]:
        """Bucket counts of these partitions, int32[len(partition_paths)]. Searches only paths that are new to it."""
        if not self.rules:
            return np.full(len(partition_paths), self.default, np.int32)
        new = [path for path in dict.fromkeys(partition_paths) if path not in self._found]
        if new:
            if len(self._found) + len(new) > FOUND_MAX:
                self._found.clear()
                new = list(dict.fromkeys(partition_paths))
            self._found.update(zip(new, self._search(new).tolist(), strict=True))
        return np.array([self._found[path] for path in partition_paths], np.int32)

    def _search(self, partition_paths: Sequence[str]) -> npt.NDArray[np.int32]:
        first = np.array([self._literal.get(path, _NONE) for path in partition_paths], np.int64)
        paths = pa.array(partition_paths, pa.string())
        for number, re2 in self._searched:
            found = pc.match_substring_regex(paths, re2).to_numpy(zero_copy_only=False)
            np.minimum(first, np.where(found, number, _NONE), out=first)
        counts = np.array([*(rule.buckets for rule in self.rules), self.default], np.int32)
        return counts[np.minimum(first, len(self.rules))]

    def check(self) -> None:
        """Raise InvalidTable, naming the rule, if this release cannot tell every partition's count."""
        for rule in (*self.rules, BucketRule("", self.default)):
            if not 1 <= rule.buckets <= BUCKET_MAX + 1:
                raise InvalidTable(
                    f"bucket rule {rule.pattern!r} has {rule.buckets} buckets: not 1 to {BUCKET_MAX + 1}"
                )
            try:
                pc.match_substring_regex(pa.array([""]), read_pattern(rule.pattern).re2)
            except (InvalidPattern, pa.ArrowInvalid) as error:
                raise InvalidTable(f"bucket rule {rule.pattern!r}: the pattern {error}") from error

    @cached_property
    def _found(self) -> dict[str, int]:
        """Counts by partition path, of those that were asked for."""
        return {}

    @cached_property
    def _literal(self) -> dict[str, int]:
        """Number of the first rule for exactly this path, by path: thousands of them cost one look-up."""
        result: dict[str, int] = {}
        for number, rule in enumerate(self.rules):
            literal = read_pattern(rule.pattern).literal
            if literal is not None:
                result.setdefault(literal, number)
        return result

    @cached_property
    def _searched(self) -> list[tuple[int, str]]:
        """(number, pattern for RE2) of the other rules."""
        read = ((number, read_pattern(rule.pattern)) for number, rule in enumerate(self.rules))
        return [(number, pattern.re2) for number, pattern in read if pattern.literal is None]
