"""By what a key is identified in the state: with its partition, or, if a key is in one partition only, alone. Then the
state treats the table as one partition, whose file groups have names of partition path and file id.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from bucketingest.hudi.naming import join
from bucketingest.hudi.table.table import StateRules

KeyIdentity: TypeAlias = Literal["partition+key", "key"]

WHOLE_TABLE: Final = "*"
"""Instead of a partition path."""


def identity_of(rules: StateRules) -> KeyIdentity:
    """How keys are identified in a table with these rules."""
    return "key" if rules.is_global else "partition+key"


def group_name(partition_path: str, file_id: str) -> str:
    """Names a file group in the whole table."""
    return join(partition_path, file_id)


def group_of(name: str) -> tuple[str, str]:
    """The partition path and the file id that `group_name` joined."""
    partition_path, _, file_id = name.rpartition("/")
    return partition_path, file_id
