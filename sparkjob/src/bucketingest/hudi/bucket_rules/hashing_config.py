"""The `.hashing_config` files, from which Hudi's writers and readers take the bucket counts of a table's partitions.

Format and validity as seen with Hudi 1.2.0 (`PartitionBucketIndexHashingConfig`): each file holds all rules, and the
newest file counts whose instant is not a pending replacecommit. A replacecommit is a rescale, which writes its file
before it completes; other files are valid as soon as they exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.errors import InvalidTable, UnsupportedTable
from bucketingest.hudi.naming import HOODIE_DIRECTORY
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage, object_names

BUCKET_INDEX_DIRECTORY: Final = f"{HOODIE_DIRECTORY}/.bucket_index"
PARTITION_INDEX_DIRECTORY: Final = f"{BUCKET_INDEX_DIRECTORY}/partition_bucket_index_meta"
CONFIG_DIRECTORY: Final = f"{PARTITION_INDEX_DIRECTORY}/configs"
ARCHIVE_DIRECTORY: Final = f"{PARTITION_INDEX_DIRECTORY}/archive"
FIRST_INSTANT: Final = "00000000000000"
"""Instant of the rules that a table has from its beginning."""
CONFIG_BYTES_MAX: Final = 4 * 1024**2
"""Hudi puts all rules into the settings of every write."""

_KEPT: Final = "bucketingest.kept"
_SUFFIX: Final = ".hashing_config"
_COUNT: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_READS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class HashingConfig:
    """One file's content."""

    instant: str
    counts: BucketCounts
    kept: int = 0
    """How many of the rules, from the first, only keep the counts of partitions that were there when it was written;
    ours alone know it.
    """

    @property
    def path(self) -> str:
        """Path of the file."""
        return path_of_config(self.instant)

    @property
    def wanted(self) -> tuple[BucketRule, ...]:
        """The rules without those that keep counts."""
        return self.counts.rules[self.kept :]

    def encode(self) -> bytes:
        """The file's bytes. Hudi ignores the field that it does not know."""
        rules = ";".join(f"{rule.pattern},{rule.buckets}" for rule in self.counts.rules)
        content = {
            "expressions": rules,
            "defaultBucketNumber": self.counts.default,
            "rule": "regex",
            "version": 1,
            "instant": self.instant,
            _KEPT: self.kept,
        }
        return json.dumps(content, indent=2, ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> Self:
        """Read a file. Raises InvalidTable: torn, of a later version, or with a rule that this release cannot apply."""
        try:
            return cls._of(json.loads(data), path)
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidTable(f"{path} is not a hashing config of Hudi's ({error}): restore it") from error
        except InvalidTable as error:
            raise InvalidTable(
                f"{path}: {error}; let Hudi's partition_bucket_index_manager overwrite the rules with patterns that "
                "both take, or use another table"
            ) from error

    @classmethod
    def _of(cls, content: dict[str, Any], path: str) -> Self:
        version, kind = content["version"], str(content["rule"])
        if version != 1 or kind.lower() != "regex":
            raise InvalidTable(f"version {version} of rules of the type {kind} is not known")
        rules = tuple(_rules(content["expressions"] or ""))
        counts = BucketCounts(int(content["defaultBucketNumber"]), rules)
        counts.check()
        kept = int(content.get(_KEPT, 0))
        if not 0 <= kept <= len(rules):
            raise ValueError(f"{_KEPT} is {kept}")
        return cls(instant_of(path) or "", counts, kept)


def _rules(expressions: str) -> Iterable[BucketRule]:
    """Split as Hudi does: at semicolons, then at the one comma, blanks cut off."""
    for text in expressions.rstrip(";").split(";") if expressions else ():
        pattern, comma, count = text.rpartition(",")
        if not comma or "," in pattern or _COUNT.fullmatch(count.strip(" ")) is None:
            raise InvalidTable(f"bucket rule {text!r} is not <pattern>,<count>")
        yield BucketRule(pattern.strip(" "), int(count))


def path_of_config(instant: str, directory: str = CONFIG_DIRECTORY) -> str:
    """Path of the file with this instant in its name."""
    return f"{directory}/{instant}{_SUFFIX}"


def instant_of(path: str) -> str | None:
    """The instant in a file's name; None for other files."""
    name = path.rpartition("/")[2]
    return name.removesuffix(_SUFFIX) if name.endswith(_SUFFIX) and not name.startswith(".") else None


def instants_in(storage: Storage, directory: str = CONFIG_DIRECTORY) -> list[str]:
    """Instants of the files in the directory, in order."""
    return sorted(filter(None, map(instant_of, object_names(storage, directory))))


@dataclass(frozen=True, slots=True)
class TableRules:
    """The rules that a table has at one moment."""

    counts: BucketCounts
    config: HashingConfig | None = None
    """None: the table has no rules."""

    @property
    def instant(self) -> str:
        """Instant of the config; "" if there is none."""
        return "" if self.config is None else self.config.instant


def load_rules(storage: Storage, buckets: int) -> TableRules:
    """The rules that count. `buckets`: the table's bucket count, without rules that of every partition.

    Raises as `HashingConfig.decode` does, and UnsupportedTable if the rules have another default.
    """
    config = load_config(storage)
    if config is None:
        return TableRules(BucketCounts(buckets))
    if config.counts.default != buckets:
        reason = (
            f"{config.path}: defaultBucketNumber is {config.counts.default}, spec.table.index.buckets is {buckets}: "
            "rows would go to other file groups than their earlier versions; set the table's own"
        )
        raise UnsupportedTable(storage.url, [reason])
    return TableRules(config.counts, config)


def counts_at(storage: Storage, instant: str, buckets: int) -> BucketCounts | None:
    """The counts by the config of this instant, "" for none, also if a newer one counts; None if it is gone."""
    if not instant:
        return BucketCounts(buckets)
    for directory in (CONFIG_DIRECTORY, ARCHIVE_DIRECTORY):
        path = path_of_config(instant, directory)
        with suppress(NotFound):
            return HashingConfig.decode(storage.get(path), path).counts
    return None


def load_config(storage: Storage) -> HashingConfig | None:
    """The config that counts; None: every partition has the table's count. Raises as `HashingConfig.decode` does."""
    for _ in range(_READS_MAX):
        instants = instants_in(storage)
        if not instants:
            return None
        # After the files: a rescale is on the timeline before its file exists, and leaves it after its file is gone.
        timeline = Timeline.load(storage)
        rescales = {each.request_time for each in timeline.pending if each.action == REPLACE_COMMIT}
        instant = max((each for each in instants if each not in rescales), default=None)
        if instant is None:
            return None
        path = path_of_config(instant)
        try:
            data = storage.get(path)
        except NotFound:  # a rescale of Hudi's was rolled back
            continue
        return HashingConfig.decode(data, path)
    raise InvalidTable(f"{storage.url}/{CONFIG_DIRECTORY} lists files that cannot be read: restore them")
