"""The rules that the API server itself checks: what must hold between fields, and what can never change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic.alias_generators import to_camel

from bucketingest.spec.fields.options import (
    FILES_READING,
    KAFKA_OPTIONS,
    KAFKA_READING,
    SPARK_SETTINGS,
    TABLE_PROPERTIES,
)
from bucketingest.spec.fields.source import KafkaColumns
from bucketingest.spec.fields.table import DEFAULT_BUCKETS, IMMUTABLE_INDEX_FIELDS, IMMUTABLE_TABLE_FIELDS
from bucketingest.spec.rules.cel import (
    CelRule,
    immutable_rules,
    longer_than_interval,
    longer_than_lease,
    one_of,
    options_of,
    other_name,
    outside,
    quoted,
    refuses,
)
from bucketingest.spec.rules.cel_tables import TABLES
from bucketingest.spec.rules.finding import PLACE
from bucketingest.spec.rules.pod import VALUES, VOLUMES
from bucketingest.spec.rules.running import CATALOGS
from bucketingest.spec.rules.source import SOURCES, TOPICS

_READ_BY_KAFKA: Final = CelRule(
    f"self.all(name, name.startsWith('kafka.') || name in {quoted(list(KAFKA_READING))})",
    f"must begin with kafka., or be one of {', '.join(KAFKA_READING)}: others do nothing",
)
_EACH_ONCE: Final = CelRule("self.all(name, self.exists_one(other, other == name))", "must name each item once")
_NO_HUDI_COLUMN: Final = CelRule("self.all(name, !name.startsWith('_hoodie_'))", "must not name Hudi's own columns")
_PLAIN_PATH: Final = CelRule(
    "!(self + '/').contains('/../') && !(self + '/').contains('/./')", "must not have . or .. as a part of the path"
)
_COLUMNS: Final = (
    "["
    + ", ".join(
        f"has(self.{part}) ? self.{part}.lowerAscii() : ''" for part in map(to_camel, KafkaColumns.model_fields)
    )
    + "].filter(name, name != '')"
)
_PLACE_NAMED: Final = " && ".join(
    f"has(self.source.kafka.columns{part})" for part in ("", *(f".{each}" for each in PLACE))
)
_ENVELOPED: Final = "(has(self.format) && has(self.format.envelope))"
_KEEPS: Final = (
    "(has({0}.format) && has({0}.format.envelope) && has({0}.format.envelope.unavailable) && "
    "{0}.format.envelope.unavailable == 'keep')"
)


_RULES: Final[dict[str, tuple[CelRule, ...]]] = {
    "": (
        CelRule("!has(self.source.kafka) || has(self.format)", "format is required for source.kafka", ".format"),
        CelRule("!has(self.format) || has(self.source.kafka)", "format is allowed with source.kafka only", ".format"),
        CelRule(
            f"has(self.table.recordKey) || {_ENVELOPED} || (has(self.source.kafka) && {_PLACE_NAMED})",
            f"table.recordKey is required, or source.kafka.columns with {', '.join(PLACE)}",
            ".table",
        ),
        outside("source.files.path", "table.path"),
        outside("errors.deadLetterPath", "table.path"),
        outside("checkpoint.path", "table.path"),
        outside("table.path", "source.files.path"),
        outside("errors.deadLetterPath", "source.files.path"),
        longer_than_interval("health.maxCommitLag"),
        longer_than_interval("health.maxInflightAge"),
        longer_than_interval("slo.commitLatency"),
        CelRule(
            "self.commit.mode != 'interval' || !has(self.slo.freshness) || "
            "duration(self.slo.freshness) > duration(self.commit.interval)",
            "slo.freshness must be longer than commit.interval",
            ".slo.freshness",
        ),
        CelRule(
            "self.commit.mode != 'interval' || !has(self.slo.readOptimizedFreshness) || duration(self.commit.interval)"
            " + duration(self.commit.interval) <= duration(self.slo.readOptimizedFreshness)",
            "slo.readOptimizedFreshness must be at least twice commit.interval",
            ".slo.readOptimizedFreshness",
        ),
        CelRule(
            "!has(self.slo.readOptimizedFreshness) || !has(self.services.mode) || self.services.mode != 'off'",
            "slo.readOptimizedFreshness is not allowed with services.mode off",
            ".slo.readOptimizedFreshness",
        ),
        CelRule(
            "self.schemaEvolution.mode == 'follow' || "
            "(has(self.format) && has(self.format.registry) && !has(self.format.schema))",
            "schemaEvolution.mode is for columns that follow a registry",
            ".schemaEvolution.mode",
        ),
        CelRule(
            f"has(self.table.recordKey) || {_ENVELOPED} || !(has(self.table.orderingField) || "
            "has(self.table.deleteWhen) || (has(self.table.index.global) && self.table.index.global))",
            "orderingField, deleteWhen and index.global are for a table with recordKey only",
            ".table",
        ),
        CelRule(
            "!has(self.format) || !has(self.format.envelope) || !has(self.table.orderingField)",
            "table.orderingField is not allowed with format.envelope: the order is that of the topic's offsets",
            ".table.orderingField",
        ),
        CelRule(
            "!has(self.format) || !has(self.format.envelope) || self.format.envelope.before == 'full' || "
            "(has(self.table.index.global) && self.table.index.global) || "
            "self.table.partitionBy.all(name, has(self.table.recordKey) && name in self.table.recordKey)",
            "table.partitionBy must be columns of recordKey with format.envelope, unless table.index.global is true or "
            "format.envelope.before is full",
            ".table.partitionBy",
        ),
        CelRule(
            f"{_KEEPS.format('self')} == {_KEEPS.format('oldSelf')}",
            "format.envelope.unavailable is immutable: create another BucketIngest for another table",
            ".format",
        ),
        CelRule(
            f"!{_ENVELOPED} || self.format.envelope.unavailable != 'keep' || (self.table.version == 9 && "
            "self.table.index.type == 'state' && (!has(self.table.index.inserts) || "
            "self.table.index.inserts == 'base') && "
            "self.table.partitionBy.all(name, has(self.table.recordKey) && name in self.table.recordKey))",
            "format.envelope.unavailable keep needs table.version 9, table.index.type state with inserts base, and "
            "table.partitionBy columns of recordKey",
            ".format.envelope",
        ),
        CelRule(
            f"self.commit.at != 'transaction' || ({_ENVELOPED} && self.format.envelope.type == 'debezium' && "
            "has(self.source.kafka) && self.source.kafka.startingOffsets == 'earliest' && (has(self.tables) ? "
            "has(self.commit.transactionTopic) : has(self.source.kafka.topics) && "
            "self.source.kafka.topics.size() == 1))",
            "commit.at transaction is for format.envelope.type debezium and one topic, or tables and a "
            "transactionTopic, from startingOffsets earliest",
            ".commit.at",
        ),
        CelRule(
            "self.commit.at == 'transaction' || !has(self.commit.transactionTopic)",
            "commit.transactionTopic is for commit.at transaction only",
            ".commit",
        ),
        CelRule(
            "!self.services.clustering.enabled || self.table.index.type == 'state'",
            "services.clustering is for table.index.type state only",
            ".services.clustering.enabled",
        ),
        *TABLES,
        CelRule(
            "!has(self.spark.executor.maxInstances) || has(self.source.kafka)",
            "spark.executor.maxInstances is for source.kafka only",
            ".spark.executor.maxInstances",
        ),
    ),
    "audit.against": (CelRule("!self.contains('password=')", "must not have a password: use passwordFrom"),),
    "catalogs": (
        one_of(CATALOGS, each=True),
        CelRule(
            "self.all(each, !has(each.hive) || !has(each.hive.kerberos) || !has(each.hive.tls) || "
            "!has(each.hive.tls.login))",
            "hive must not have kerberos and tls.login",
        ),
        other_name("hive", "(!has(made.iceberg.uri) || made.iceberg.uri == other.hive.uri)"),
        other_name("glue", "!has(made.iceberg.uri) && !has(other.glue.catalogId)"),
    ),
    "services.clean": (CelRule("!has(self.retain) || !has(self.versions)", "must not have both retain and versions"),),
    "source": (one_of(SOURCES),),
    "source.kafka": (one_of(TOPICS),),
    "source.kafka.columns": (
        CelRule(f"{_COLUMNS}.all(name, !name.startsWith('_hoodie_'))", "must not name Hudi's own columns"),
        CelRule(
            f"{_COLUMNS}.all(name, {_COLUMNS}.exists_one(other, other == name))",
            "must have a name of its own for each, whatever its case",
        ),
    ),
    "source.kafka.topics": (_EACH_ONCE,),
    "source.kafka.options": (refuses(KAFKA_OPTIONS, "bucketingest sets them itself"), _READ_BY_KAFKA),
    "source.kafka.optionsFrom": (refuses(KAFKA_OPTIONS, "bucketingest sets them itself"), _READ_BY_KAFKA),
    "source.files": (
        CelRule(
            "self.format in ['parquet', 'avro'] || has(self.schema)", "schema is required for json and csv", ".schema"
        ),
        *(options_of(kind, names) for kind, names in FILES_READING.items()),
    ),
    "source.files.path": (_PLAIN_PATH,),
    "format": (
        CelRule(
            "self.type == 'avro' || !has(self.confluentSchemaId)",
            "confluentSchemaId is allowed with type avro only",
            ".confluentSchemaId",
        ),
        CelRule(
            "self.type == 'json' || self.timestamps == 'iso'",
            "timestamps is allowed with type json only",
            ".timestamps",
        ),
        CelRule(
            "self.type == 'protobuf' ? !has(self.schema) || has(self.messageName) : !has(self.messageName)",
            "messageName is required for protobuf with schema, and for protobuf only",
            ".messageName",
        ),
        CelRule("has(self.schema) || has(self.registry)", "schema is required without registry", ".schema"),
        CelRule(
            "!has(self.envelope) || (has(self.registry) ? self.type == 'avro' : self.type == 'json')",
            "envelope is for json without registry and for avro with one",
            ".envelope",
        ),
        CelRule(
            "self.unknownFields == 'ignore' || (self.type == 'json' && !has(self.registry) && !has(self.envelope))",
            "unknownFields column is for json without registry and envelope",
            ".unknownFields",
        ),
        CelRule(
            "!has(self.confluentSchemaId) || !has(self.registry)",
            "must have at most one of confluentSchemaId and registry",
        ),
    ),
    "format.envelope": (
        CelRule("self.type != 'debeziumFlat' || self.before != 'full'", "before full is for type debezium", ".before"),
    ),
    "format.registry": (
        CelRule(
            "!has(self.recordName) || (!has(self.subject) && self.subjectStrategy != 'TopicName')",
            "recordName is for subjectStrategy RecordName and TopicRecordName without subject",
            ".recordName",
        ),
    ),
    "table": (
        CelRule(
            "!has(self.index.hashFields) || "
            "(has(self.recordKey) && self.index.hashFields.all(name, name in self.recordKey))",
            "index.hashFields must be columns of recordKey",
            ".index.hashFields",
        ),
        CelRule(
            "!has(self.index.partitionBuckets) || self.index.partitionBuckets.size() == 0 || "
            "self.partitionBy.size() > 0",
            "index.partitionBuckets is for a table with partitionBy only",
            ".index.partitionBuckets",
        ),
        CelRule(
            "!has(self.index.global) || !self.index.global || self.partitionBy.size() > 0",
            "index.global is for a table with partitionBy only",
            ".index.global",
        ),
    ),
    "table.index": (
        *(
            CelRule(f"self.type == 'bucket' || !has(self.{name})", f"{name} is for type bucket only", f".{name}")
            for name in ("partitionBuckets", "hashFields")
        ),
        *(
            CelRule(f"self.type == 'state' || !has(self.{name})", f"{name} is for type state only", f".{name}")
            for name in ("targetFileSize", "inserts", "global", "onDuplicateKeys")
        ),
        CelRule(
            "!has(self.global) || !self.global || !has(self.inserts) || self.inserts == 'base'",
            "global is for inserts base only",
            ".global",
        ),
        CelRule(
            f"self.type == 'bucket' || (self.buckets == {DEFAULT_BUCKETS} && self.hash == 'hudi')",
            "buckets and hash are for type bucket only",
        ),
    ),
    "table.lock": (longer_than_lease("waitTimeout"), longer_than_lease("heldTimeout")),
    "table.path": (_PLAIN_PATH,),
    "table.recordKey": (_EACH_ONCE, _NO_HUDI_COLUMN),
    "table.partitionBy": (_EACH_ONCE, _NO_HUDI_COLUMN),
    "table.index.hashFields": (_EACH_ONCE,),
    "table.properties": (
        CelRule("self.all(name, name.startsWith('hoodie.'))", "must have names that start with hoodie."),
        CelRule(
            f"self.all(name, !{quoted(TABLE_PROPERTIES)}.exists(start, name.startsWith(start)))",
            f"must not set {', '.join(TABLE_PROPERTIES)}: they follow from other fields",
        ),
    ),
    "commit": (
        CelRule(
            "self.mode != 'interval' || self.trigger == 'once' || duration(self.interval) >= duration(self.trigger)",
            "interval must not be shorter than trigger",
            ".interval",
        ),
    ),
    "errors": (
        CelRule(
            "self.mode == 'deadLetter' || !has(self.deadLetterPath)",
            "deadLetterPath is allowed with mode deadLetter only",
            ".deadLetterPath",
        ),
    ),
    "errors.deadLetterPath": (_PLAIN_PATH,),
    "checkpoint.path": (_PLAIN_PATH,),
    "pod.env": (one_of(VALUES, each=True),),
    "pod.volumes": (one_of(VOLUMES, each=True),),
    "spark.executor": (
        CelRule(
            "!has(self.maxInstances) || (self.instances > 0 && self.maxInstances >= self.instances)",
            "maxInstances must not be less than instances, and instances not 0",
            ".maxInstances",
        ),
    ),
    "spark.conf": (
        CelRule("self.all(name, name.startsWith('spark.'))", "must have names that start with spark."),
        refuses(SPARK_SETTINGS, "use the fields of the spec"),
    ),
}


def add_rules(spec_schema: dict[str, Any]) -> None:
    """Write every rule to its node of the schema of `spec`, in place."""
    for path, rules in _RULES.items():
        _add(_node(spec_schema, path), rules)
    table = _node(spec_schema, "table")
    _add(table, immutable_rules(IMMUTABLE_TABLE_FIELDS, table))
    index = _node(spec_schema, "table.index")
    _add(index, immutable_rules(IMMUTABLE_INDEX_FIELDS, index))


def _node(schema: dict[str, Any], path: str) -> dict[str, Any]:
    node = schema
    for name in filter(None, path.split(".")):
        node = node["properties"][name]
    return node


def _add(node: dict[str, Any], rules: Sequence[CelRule]) -> None:
    node.setdefault("x-kubernetes-validations", []).extend(rule.as_dict() for rule in rules)
