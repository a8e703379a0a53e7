"""What users of `Writer` may rely on: a change of these types is a change for them. Checked by mypy, never run."""

from __future__ import annotations

from typing import assert_type

import pyarrow as pa

from bucketingest.hudi.table.table import TableDefinition
from bucketingest.write.coordinator_api import Commit, MicroBatchOutcome
from bucketingest.write.writer import Writer


def use(rows: pa.Table) -> None:
    with Writer.open("orders", TableDefinition("orders", record_key=("id",)), rows.schema, name="import") as writer:
        assert_type(writer, Writer)
        assert_type(writer.position, int)
        assert_type(writer.write(rows), MicroBatchOutcome)
        assert_type(writer.commit(), Commit | None)
    writer.close()
