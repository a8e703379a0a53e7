"""Which files have the rows that a truncate deletes, as a micro-batch finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bucketingest.hudi.naming import BaseFileName, LogFileName
from bucketingest.storage import open_storage
from bucketingest.write.rows.emptied import slices_to_empty

FILE_ID = "bf2088c9-aed6-993e-d818-ce56272da438-0"
INSTANT = "20261121080001056"


@pytest.mark.parametrize(("sequence", "found"), [(1, []), (2, [1]), (3, [1, 2])])
def test_of_its_own_instant_only_what_earlier_micro_batches_wrote(
    tmp_path: Path, sequence: int, found: list[int]
) -> None:
    """A base file is what an earlier attempt wrote of the same micro-batch: such an instant has one."""
    folder = tmp_path / "eu"
    folder.mkdir()
    (tmp_path / ".hoodie" / "timeline").mkdir(parents=True)
    logs = [str(LogFileName(FILE_ID, INSTANT, version)) for version in (1, 2)]
    for name in (*logs, str(BaseFileName(FILE_ID.replace("bf", "af"), INSTANT))):
        (folder / name).touch()
    slices = slices_to_empty(open_storage(str(tmp_path)), INSTANT, sequence)
    names = [Path(file.path).name for each in slices for file in each.files]
    assert names == [logs[version - 1] for version in found]
