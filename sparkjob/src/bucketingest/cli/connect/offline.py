"""What of a resource can be checked without any connection and without Spark: columns, keys, the SQL's outline.

`run` makes these checks before it starts Spark, `validate` makes no others.
"""

from __future__ import annotations

import pyarrow as pa

from bucketingest.decode.ddl import UnreadableDdl
from bucketingest.decode.debezium.events import DELETED
from bucketingest.decode.decoder_choice import has_transform
from bucketingest.decode.files.formats import declared
from bucketingest.decode.kafka.columns import ClashingColumns, MessageColumns
from bucketingest.decode.message_columns import UnusableColumns, columns_of
from bucketingest.decode.sql.words import sql_problems
from bucketingest.errors import BucketIngestError
from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.many_tables import placed, tables_problems
from bucketingest.spec.model import BucketIngest


def offline_problems(resource: BucketIngest) -> list[Problem]:
    """All that is wrong with a resource, as far as its own text tells."""
    if resource.spec.tables is None:
        return _of_one_table(resource)
    found: list[Problem] = []
    for place, table in tables_problems(resource):
        problems = table.problems if isinstance(table, SpecError) else _of_one_table(table)
        found += [placed(place, each) for each in problems]
    return found


def _of_one_table(resource: BucketIngest) -> list[Problem]:
    found: list[Problem] = []
    columns: pa.Schema | None = None
    spec = resource.spec
    try:
        columns = _source_columns(resource)
    except (UnusableColumns, ClashingColumns) as error:
        found.append(Problem("spec.format.schema", str(error)))
    except UnreadableDdl as error:
        found.append(Problem("spec.source.files.schema", str(error)))
    found += sql_problems(spec, None if columns is None or has_transform(resource) else columns.names)
    if columns is not None and resource.record_key and not has_transform(resource):
        is_event = spec.format is not None and spec.format.envelope is not None
        kept = [each for each in columns if not (is_event and each.name == DELETED)]
        found += _of_table(resource, pa.schema(kept))
    return found


def _source_columns(resource: BucketIngest) -> pa.Schema | None:
    """The source's columns; None if the text does not say them. Raises UnusableColumns, ClashingColumns,
    UnreadableDdl.
    """
    spec = resource.spec
    if spec.format is not None:
        beside = MessageColumns({} if spec.source.kafka is None else spec.source.kafka.named_columns)
        return None if spec.format.schema_text is None else beside.behind(columns_of(spec.format))
    files = spec.source.files
    return None if files is None else declared(files)


def _of_table(resource: BucketIngest, columns: pa.Schema) -> list[Problem]:
    """What no table can take."""
    from bucketingest.stream.pipeline import Pipeline
    from bucketingest.write.open_table import check_definition

    try:
        check_definition(Pipeline.of(resource).definition, columns)
    except BucketIngestError as error:
        return [Problem("spec.table", str(error))]
    return []
