import json
from collections.abc import Callable
from typing import Any

import pytest

Find = Callable[[dict[str, Any]], list[str]]
GLOBAL = {"type": "state", "global": True}
LAKE = {"database": "lake", "table": "orders"}
LOGIN = {"username": "ingest", "passwordFile": "/mnt/hive/password"}
METASTORE = {"uri": "thrift://metastore:9083", "database": "lake"}
RATE = {"rate": {"rowsPerSecond": 5}}


def test_a_right_spec_breaks_no_rule(problems: Find) -> None:
    assert problems({}) == []


@pytest.mark.parametrize(
    "other",
    [{"table": "orders_ice"}, {"database": "ice"}, {"uri": "thrift://other:9083"}, {"type": "rest"}],
    ids=lambda change: next(iter(change)),
)
def test_an_iceberg_table_elsewhere_or_with_another_name_is_no_clash(problems: Find, other: dict[str, str]) -> None:
    iceberg = {"type": "hive", **METASTORE, **other}
    assert problems({"spec.catalogs": [{"hive": METASTORE}, {"iceberg": iceberg}]}) == []


def test_an_iceberg_table_beside_one_in_glue_of_a_named_account_is_no_clash(problems: Find) -> None:
    glue = {"region": "eu-west-1", "catalogId": "123456789012", "database": "lake"}
    assert problems({"spec.catalogs": [{"glue": glue}, {"iceberg": {"type": "glue", "database": "lake"}}]}) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {
                "spec.table.partitionBy": ["day"],
                "spec.table.index.partitionBuckets": [{"pattern": r"\b", "buckets": 8}],
            },
            r"spec.table.index.partitionBuckets[0].pattern: has \b, which is not known here (at character 2 of '\\b')",
            id="pattern that Java reads otherwise",
        ),
        pytest.param(
            {
                "spec.table.partitionBy": ["day"],
                "spec.table.index.partitionBuckets": [{"pattern": "a,b", "buckets": 8}],
            },
            'spec.table.index.partitionBuckets[0].pattern: is "a,b"; allowed: a regular expression without a comma and '
            "a semicolon, such as ^2027-",
            id="pattern with a comma",
        ),
        pytest.param(
            {"spec.table.partitionBy": None, "spec.table.index.partitionBuckets": [{"pattern": "us", "buckets": 8}]},
            "spec.table.index.partitionBuckets: is for a table with table.partitionBy only",
            id="rules without partitions",
        ),
        pytest.param(
            {"spec.table.partitionBy": None, "spec.table.index": {"type": "state", "global": True}},
            "spec.table.index.global: is for a table with table.partitionBy only: without partitions no key moves",
            id="global keys without partitions",
        ),
        pytest.param(
            {
                "spec.table.partitionBy": ["day"],
                "spec.table.index": {"type": "state", "global": True, "inserts": "log"},
            },
            "spec.table.index.global: is for table.index.inserts base only: a moved key gets a base file in its new "
            "partition",
            id="global keys in log files",
        ),
        pytest.param(
            {"spec.source": {}, "spec.format": None},
            "spec.source: has none; allowed: exactly one of kafka, files, rate",
            id="no source",
        ),
        pytest.param(
            {"spec.source.rate": RATE["rate"]},
            "spec.source: has kafka and rate; allowed: exactly one of kafka, files, rate",
            id="two sources",
        ),
        pytest.param(
            {"spec.source.kafka.topicPattern": "o.*"},
            "spec.source.kafka: has topics and topicPattern; allowed: exactly one of topics and topicPattern",
            id="topics and pattern",
        ),
        pytest.param(
            {"spec.source.kafka.topics": None},
            "spec.source.kafka: has none; allowed: exactly one of topics and topicPattern",
            id="no topics",
        ),
        pytest.param(
            {"spec.format": None},
            "spec.format: is required for source.kafka; allowed: type (json or avro) and schema",
            id="kafka without format",
        ),
        pytest.param(
            {"spec.source": RATE},
            "spec.format: is not allowed with source.rate: only Kafka records need decoding",
            id="rate with format",
        ),
        pytest.param(
            {"spec.source": {"files": {"path": "/in", "format": "csv"}}, "spec.format": None},
            "spec.source.files.schema: is required for format csv; allowed: columns as Spark SQL DDL",
            id="csv without schema",
        ),
        pytest.param(
            {"spec.format": {"type": "avro", "schema": "a STRING"}},
            "spec.format.schema: is not JSON: Expecting value: line 1 column 1 (char 0); "
            "allowed: an Avro schema as JSON text",
            id="DDL as Avro schema",
        ),
        pytest.param(
            {"spec.format": {"type": "protobuf", "schema": "AAAA", "messageName": "a.B", "timestamps": "millis"}},
            "spec.format.timestamps: is not allowed for protobuf, whose schema says what numbers are; "
            "allowed: format.type json",
            id="a unit of times beside a schema that has one",
        ),
        pytest.param(
            {
                "spec.format": {"type": "avro", "schema": "{}", "envelope": {"type": "debezium"}},
                "spec.table.partitionBy": None,
                "spec.table.orderingField": None,
            },
            "spec.format.envelope: is for json without registry and for avro with one",
            id="envelope of Avro",
        ),
        pytest.param(
            {"spec.commit.at": "transaction"},
            "spec.commit.at: is transaction, and messages are no change events; allowed: format.envelope.type debezium",
            id="transactions of plain rows",
        ),
        pytest.param(
            {
                "spec.commit.at": "transaction",
                "spec.format.envelope": {"type": "debezium"},
                "spec.source.kafka.topics": ["db.a", "db.b"],
            },
            "spec.commit.at: is transaction, which is for one topic; allowed: one of source.kafka.topics, or tables",
            id="transactions of two topics",
        ),
        pytest.param(
            {
                "spec.commit.at": "transaction",
                "spec.format.envelope": {"type": "debezium"},
                "spec.source.kafka.startingOffsets": "latest",
            },
            "spec.source.kafka.startingOffsets: is not allowed with commit.at transaction: it may be in the middle of "
            "one; allowed: earliest",
            id="transactions from the middle on",
        ),
        pytest.param(
            {"spec.commit.transactionTopic": "db.transaction"},
            "spec.commit.transactionTopic: is for commit.at transaction only",
            id="a transaction topic for nothing",
        ),
        pytest.param(
            {"spec.format.unknownFields": "column", "spec.format.envelope": {"type": "debezium"}},
            "spec.format.unknownFields: column is for json without registry and envelope; allowed: ignore",
            id="unknown fields of an envelope",
        ),
        pytest.param(
            {"spec.schemaEvolution": {"mode": "additive"}},
            "spec.schemaEvolution.mode: is for columns that follow a registry; allowed: format.registry without "
            "format.schema",
            id="columns that follow no registry",
        ),
        pytest.param(
            {"spec.format.envelope": {"type": "debezium"}, "spec.table.orderingField": "ts"},
            "spec.table.orderingField: is not allowed with format.envelope: the order of changes is that of the "
            "topic's offsets",
            id="envelope with another order than the offsets'",
        ),
        pytest.param(
            {
                "spec.format.envelope": {"type": "debezium"},
                "spec.table.orderingField": None,
                "spec.table.partitionBy": ["region"],
            },
            "spec.table.partitionBy: has region, no column of recordKey: a delete has only the key's values, and would "
            "miss the row; allowed: columns of recordKey; or table.index.global true; or format.envelope.before full, "
            "with REPLICA IDENTITY FULL at the source",
            id="deletes that would miss their rows",
        ),
        pytest.param(
            {
                "spec.format.envelope": {"type": "debeziumFlat", "before": "full"},
                "spec.table.orderingField": None,
                "spec.table.partitionBy": None,
            },
            "spec.format.envelope.before: is full, and flat rows have no before; allowed: format.envelope.type "
            "debezium",
            id="flat rows with an image before",
        ),
        pytest.param(
            {
                "spec.format.envelope": {"type": "debezium", "unavailable": "keep"},
                "spec.table.orderingField": None,
                "spec.table.partitionBy": ["region"],
                "spec.table.index": GLOBAL,
            },
            "spec.format.envelope.unavailable: is keep, and table.partitionBy has region, no column of recordKey: the "
            "older value may be in another partition; allowed: deadLetter",
            id="an older value in another partition",
        ),
        pytest.param(
            {
                "spec.format.envelope": {"type": "debezium", "unavailable": "keep"},
                "spec.table.orderingField": None,
                "spec.table.partitionBy": None,
            },
            "spec.format.envelope.unavailable: is keep, and only an index with a state knows the first row of a key, "
            "which has no older value; allowed: table.index.type state with inserts base",
            id="an older value that may not be there",
        ),
        pytest.param(
            {
                "spec.format.envelope": {"type": "debezium", "unavailable": "keep"},
                "spec.table.orderingField": None,
                "spec.table.partitionBy": None,
                "spec.table.index": {"type": "state"},
                "spec.table.version": 8,
            },
            "spec.format.envelope.unavailable: is keep, which tables of version 8 do not know; allowed: table.version "
            "9",
            id="an older value in an old table",
        ),
        pytest.param(
            {
                "spec.format.envelope": {"type": "debezium"},
                "spec.table.orderingField": None,
                "spec.table.partitionBy": None,
                "spec.table.recordKey": None,
                "spec.table.index": {"hashFields": ["a"]},
            },
            "spec.table.index.hashFields: needs table.recordKey, whose columns it names",
            id="columns of a key that is not known",
        ),
        pytest.param(
            {"spec.format": {"type": "json", "schema": "a STRING", "confluentSchemaId": 7}},
            "spec.format.confluentSchemaId: is not allowed for json; allowed: format.type avro",
            id="Confluent's header before JSON",
        ),
        pytest.param(
            {"spec.table.lock": {"leaseValidity": "90s"}},
            "spec.table.lock.waitTimeout: is 1m; allowed: more than table.lock.leaseValidity, 1m30s",
            id="lock left by a crash not waited out",
        ),
        pytest.param(
            {"spec.table.lock": {"heldTimeout": "30s"}},
            "spec.table.lock.heldTimeout: is 30s; allowed: more than table.lock.leaseValidity, 30s",
            id="table of a crashed job not waited out",
        ),
        pytest.param(
            {"spec.table.recordKey": ["a", "a"]},
            "spec.table.recordKey[1]: names a a second time; allowed: each name once",
            id="key column twice",
        ),
        pytest.param(
            {"spec.table.recordKey": ["_hoodie_record_key"]},
            "spec.table.recordKey[0]: is _hoodie_record_key; allowed: a column of the data, not one of Hudi's own",
            id="meta column as key",
        ),
        pytest.param(
            {"spec.table.recordKey": None},
            "spec.table.recordKey: is required, as source.kafka.columns has no topic, partition and offset; allowed: "
            "columns of the table; or, to append every message, names in source.kafka.columns for topic, partition and "
            "offset",
            id="no key",
        ),
        pytest.param(
            {"spec.table.recordKey": None, "spec.source.kafka.columns": {"topic": "t", "offset": "o"}},
            "spec.table.recordKey: is required, as source.kafka.columns has no partition; allowed: columns of the "
            "table; or, to append every message, names in source.kafka.columns for topic, partition and offset",
            id="a part of the place missing",
        ),
        pytest.param(
            {
                "spec.table": {"path": "/t", "orderingField": "o"},
                "spec.source.kafka.columns": {"topic": "t", "partition": "p", "offset": "o"},
            },
            "spec.table.orderingField: is for a table with table.recordKey only: no row replaces another",
            id="an order of rows that are appended",
        ),
        pytest.param(
            {
                "spec.source": {"files": {"path": "/in", "format": "parquet"}},
                "spec.format": None,
                "spec.table": {"path": "/t"},
            },
            "spec.table.recordKey: is required: only messages of Kafka can be told apart without it; allowed: columns "
            "of the table",
            id="files without a key",
        ),
        pytest.param(
            {"spec.source.kafka.columns": {"topic": "k", "key": "K"}},
            "spec.source.kafka.columns.key: is K, as topic is; case does not count; allowed: a name of its own for "
            "each",
            id="two columns of one name",
        ),
        pytest.param(
            {"spec.source.kafka.columns": {"offset": "_hoodie_commit_seqno"}},
            "spec.source.kafka.columns.offset: is _hoodie_commit_seqno, a name of Hudi's own columns; allowed: another "
            "name",
            id="a meta column for the offset",
        ),
        pytest.param(
            {"spec.table.recordKey": []},
            "spec.table.recordKey: has 0 items; allowed: a list of 1 to 16 items, each a column name of letters, "
            "digits and _, at most 128 characters",
            id="no key column",
        ),
        pytest.param(
            {"spec.table.index.hashFields": ["b", "c"]},
            "spec.table.index.hashFields[1]: names c, not a key column; allowed: columns of table.recordKey: a, b",
            id="hash field that is no key",
        ),
        pytest.param(
            {"spec.table.index": {"onDuplicateKeys": "report"}},
            "spec.table.index.onDuplicateKeys: is for table.index.type state only, and the type is bucket",
            id="field of a state without one",
        ),
        pytest.param(
            {"spec.table.index": {"type": "state", "buckets": 8}},
            "spec.table.index.buckets: is for table.index.type bucket only, and the type is state",
            id="buckets with a state",
        ),
        pytest.param(
            {"spec.table.index": {"type": "state", "hash": "murmur3"}},
            "spec.table.index.hash: is for table.index.type bucket only, and the type is state",
            id="hash with a state",
        ),
        pytest.param(
            {"spec.table.path": "s3://lake/x/../orders"},
            "spec.table.path: has . or .. as a part of the path; allowed: the plain path",
            id="dots in path",
        ),
        pytest.param(
            {"spec.errors.deadLetterPath": "s3://lake/orders/bad"},
            "spec.errors.deadLetterPath: lies in the table; allowed: a path outside of table.path s3://lake/orders",
            id="dead letters in the table",
        ),
        pytest.param(
            {
                "spec.source": {"files": {"path": "/in", "format": "parquet"}},
                "spec.format": None,
                "spec.table.path": "/in/orders",
            },
            "spec.table.path: is read by the source; allowed: a path outside of source.files.path /in, or below a "
            "directory of it that begins with _",
            id="table in the source",
        ),
        pytest.param(
            {"spec.checkpoint.path": "s3://lake/orders"},
            "spec.checkpoint.path: lies in the table; allowed: a path outside of table.path s3://lake/orders",
            id="checkpoint in the table",
        ),
        pytest.param(
            {"spec.errors": {"mode": "fail", "deadLetterPath": "s3://lake/bad"}},
            "spec.errors.deadLetterPath: is not allowed with errors.mode fail; allowed: errors.mode deadLetter",
            id="dead letter path without mode",
        ),
        pytest.param(
            {"spec.commit.mode": "interval", "spec.commit.interval": "1s"},
            "spec.commit.interval: is 1s; allowed: at least commit.trigger, 2s",
            id="interval shorter than the default trigger",
        ),
        pytest.param(
            {"spec.commit.mode": "interval", "spec.commit.interval": "7m", "spec.slo.commitLatency": "8m"},
            "spec.health.maxCommitLag: is 5m; allowed: more than commit.interval, 7m",
            id="default commit lag shorter than interval",
        ),
        pytest.param(
            {"spec.commit.mode": "interval", "spec.health.maxInflightAge": "30s"},
            "spec.health.maxInflightAge: is 30s; allowed: more than commit.interval, 30s",
            id="every instant stuck",
        ),
        pytest.param(
            {"spec.commit.mode": "interval", "spec.commit.interval": "61s"},
            "spec.slo.commitLatency: is 1m; allowed: more than commit.interval, 1m1s",
            id="no commit good",
        ),
        pytest.param(
            {"spec.commit.mode": "interval", "spec.slo.freshness": "30s"},
            "spec.slo.freshness: is 30s; allowed: more than commit.interval, 30s",
            id="never fresh",
        ),
        pytest.param(
            {"spec.commit.mode": "interval", "spec.commit.interval": "31s", "spec.slo.readOptimizedFreshness": "1m"},
            "spec.slo.readOptimizedFreshness: is 1m; allowed: at least twice commit.interval, 1m2s",
            id="base files never fresh",
        ),
        pytest.param(
            {"spec.services.mode": "off", "spec.slo.readOptimizedFreshness": "5m"},
            "spec.slo.readOptimizedFreshness: is not allowed with services.mode off; allowed: another services.mode",
            id="a promise that nobody keeps",
        ),
        pytest.param(
            {"spec.services.clustering.enabled": True},
            "spec.services.clustering.enabled: is for table.index.type state only, and the type is bucket",
            id="file groups of buckets are not merged",
        ),
        pytest.param(
            {"spec.services.clean": {"retain": "2h", "versions": 3}},
            "spec.services.clean: has retain and versions; allowed: one of them",
            id="two retentions",
        ),
        pytest.param(
            {"spec.catalogs": [{"glue": {"region": "eu-west-1", "database": "lake"}}, {}]},
            "spec.catalogs[1]: has none; allowed: exactly one of hive, glue, iceberg",
            id="an entry that is no catalog",
        ),
        pytest.param(
            {"spec.catalogs": [{"hive": {**METASTORE, "kerberos": {}, "tls": {"login": LOGIN}}}]},
            "spec.catalogs[0].hive: has kerberos and tls.login; allowed: one of them",
            id="two logins at a metastore",
        ),
        pytest.param(
            {"spec.catalogs": [{"hive": METASTORE}, {"iceberg": {"type": "hive", **METASTORE}}]},
            "spec.catalogs[1].iceberg.table: is absent, as that of hive in the same database; "
            "allowed: another name than the one that engines of Hudi tables find",
            id="one name for two tables of a metastore",
        ),
        pytest.param(
            {"spec.catalogs": [{"iceberg": {"type": "glue", **LAKE}}, {"glue": {"region": "eu-west-1", **LAKE}}]},
            "spec.catalogs[0].iceberg.table: is orders, as that of glue in the same database; "
            "allowed: another name than the one that engines of Hudi tables find",
            id="one name for two tables in Glue",
        ),
        pytest.param(
            {"spec.catalogs": [{"iceberg": {"type": "sql", "database": "lake", "uri": "postgresql://me@host/db"}}]},
            'spec.catalogs[0].iceberg.uri: is "postgresql://me@host/db"; allowed: SCHEME://REST, without user and '
            "password",
            id="a user in the place of a catalog",
        ),
        pytest.param(
            {"spec.spark.executor": {"instances": 4, "maxInstances": 2}},
            "spec.spark.executor.maxInstances: is 2, and instances is 4; "
            "allowed: instances of at least 1, and no fewer than these",
            id="a most below the least",
        ),
    ],
)
def test_a_broken_rule_is_reported_in_these_words(problems: Find, changes: dict[str, Any], message: str) -> None:
    assert problems(changes) == [message]


@pytest.mark.parametrize("name", ["hoodie.table.name", "hoodie.metadata.enable", "hoodie.record.merge.mode"])
def test_table_properties_that_we_decide_are_refused(problems: Find, name: str) -> None:
    assert problems({"spec.table.properties": {name: "x"}}) == [
        f'spec.table.properties["{name}"]: cannot be set here: it follows from other fields of the spec'
    ]


def test_table_properties_are_hudis(problems: Find) -> None:
    assert problems({"spec.table.properties": {"hoodie.cleaner.policy": "KEEP_LATEST_COMMITS"}}) == []
    assert problems({"spec.table.properties": {"owner": "me"}}) == [
        "spec.table.properties.owner: is not a Hudi table property; allowed: names that start with hoodie."
    ]


def test_spark_settings_that_other_fields_set_are_refused(problems: Find) -> None:
    assert problems({"spec.spark.conf": {"spark.executor.memory": "1g", "x": "1", "spark.ui.enabled": "false"}}) == [
        'spec.spark.conf["spark.executor.memory"]: cannot be set here: use spark.executor.memory of the spec',
        "spec.spark.conf.x: is not a Spark setting; allowed: names that start with spark.",
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/data/orders",
        "file:///data/My Data",
        "s3://lake/a",
        "s3a://lake/a/b",
        "gs://b/x=1",
        "az://c/x",
        "abfss://c@a.dfs.core.windows.net/x",
    ],
)
def test_these_table_paths_are_taken(problems: Find, path: str) -> None:
    assert problems({"spec.table.path": path}) == []


@pytest.mark.parametrize(
    "path", ["orders", "/", "s3://lake", "s3://lake/", "s3://lake/a/", "hdfs://n/x", "s3://b//x", "/a?b", "/a\nb", ""]
)
def test_these_table_paths_are_refused(problems: Find, path: str) -> None:
    (message,) = problems({"spec.table.path": path})
    assert message.startswith(f"spec.table.path: is {json.dumps(path)}; allowed: an absolute local path or")


@pytest.mark.parametrize(
    ("buckets", "wrong"),
    [
        (0, "is 0"),
        (100_000_000, "is 100000000"),
        (-1, "is -1"),
        (1.5, "is 1.5 (a number)"),
        ("64", 'is "64"'),
        (True, "is true (a boolean)"),
    ],
)
def test_buckets_are_integers_that_fit_the_file_id(problems: Find, buckets: object, wrong: str) -> None:
    assert problems({"spec.table.index.buckets": buckets}) == [
        f"spec.table.index.buckets: {wrong}; allowed: an integer from 1 to 99999999"
    ]


@pytest.mark.parametrize("name", ["Orders", "1a", "a_b", "a-", "a.b", "", "a" * 53])
def test_names_that_cannot_name_a_pod_or_a_service_are_refused(problems: Find, name: str) -> None:
    (message,) = problems({"metadata.name": name})
    assert message.startswith("metadata.name: ")


def test_a_wrong_field_does_not_hide_a_broken_rule(problems: Find) -> None:
    found = problems({"spec.table.index.buckets": 0, "spec.table.recordKey": ["a", "a"], "spec.format": None})
    assert [message.split(": ")[0] for message in found] == [
        "spec.table.index.buckets",
        "spec.format",
        "spec.table.recordKey[1]",
    ]


def test_values_that_may_be_secret_are_not_shown(problems: Find) -> None:
    (message,) = problems({"spec.source.kafka.options": {"kafka.sasl.jaas.config": 4711}})
    assert "4711" not in message
    (message,) = problems({"spec.source.kafka.options": {"kafka.sasl.jaas.config": "x" * 9000}})
    assert "xx" not in message


def test_a_wrong_field_does_not_hide_a_rule_that_compares_with_a_default(problems: Find) -> None:
    assert problems({"spec.table.index.buckets": 0, "spec.commit": {"mode": "interval", "interval": "1s"}}) == [
        "spec.table.index.buckets: is 0; allowed: an integer from 1 to 99999999",
        "spec.commit.interval: is 1s; allowed: at least commit.trigger, 2s",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"spec.table.partitionBy": None},
        {"spec.table.recordKey": ["id", "region"], "spec.table.partitionBy": ["region"]},
        {"spec.table.partitionBy": ["region"], "spec.table.index": GLOBAL},
        {"spec.table.partitionBy": ["region"], "spec.format.envelope": {"type": "debezium", "before": "full"}},
        {"spec.table.partitionBy": None, "spec.table.recordKey": None},
        {"spec.table.partitionBy": ["region"], "spec.table.recordKey": None, "spec.table.index": GLOBAL},
    ],
)
def test_the_ways_in_which_a_delete_finds_its_row(problems: Find, changes: dict[str, Any]) -> None:
    assert problems({"spec.format.envelope": {"type": "debezium"}, "spec.table.orderingField": None} | changes) == []
