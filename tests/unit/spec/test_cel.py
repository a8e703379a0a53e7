"""The rules that the API server evaluates and those of `validate`, on the same random specs."""

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import cel

from bucketingest.spec.crd import custom_resource_definition
from bucketingest.spec.errors import SpecError
from bucketingest.spec.reading.load import parse_object

Node = dict[str, Any]

_LOGIN: Final = {"username": "u", "passwordFile": "/mnt/p"}
_DURATION: Final = ("1s", "30s", "1m", "2m30s", "1h")
_NAMES: Final[tuple[list[str], ...]] = (["a"], ["b"], ["a", "b"], ["c"], ["a", "a"], ["_hoodie_x"], [])
_TOPIC: Final = "s3://lake/{topic}"
_PATH: Final = (
    _TOPIC,
    "s3://lake/orders",
    "s3://lake/orders/x",
    "s3://lake/other",
    "s3://lake/orders2",
    "s3://lake/a/../b",
)
_BELOW: Final = (
    "s3://lake/in/x",
    "s3://lake/in/_x/y",
    "s3://lake/in/a/.x",
    "s3://lake/in/_a=b/_c",
    "s3://lake/in/_a=b",
)
_OPTIONS: Final[tuple[dict[str, str], ...]] = (
    {"kafka.client.id": "x"},
    {"kafka.group.id": "x"},
    {"minPartitions": "3"},
    {"isolation.level": "x"},
    {"includeHeaders": "true"},
    {},
)
POOLS: Final[Mapping[str, tuple[Any, ...]]] = {
    "source.kafka.topics": (["orders"], ["orders", "orders"], ["a", "b"], None),
    "source.kafka.topicPattern": ("o.*",),
    "source.kafka.options": _OPTIONS,
    "source.kafka.columns": (
        {"topic": "t", "partition": "p", "offset": "o"},
        {"topic": "t", "partition": "T"},
        {"key": "_hoodie_x"},
        {"offset": "o", "timestamp": "at"},
    ),
    "source": (
        {"rate": {"rowsPerSecond": 5}},
        {"files": {"path": "s3://lake/in", "format": "parquet"}},
        {"files": {"path": "s3://lake/in", "format": "json"}},
        {"files": {"path": "s3://lake/orders/in", "format": "csv", "schema": "a STRING, b STRING"}},
        {"files": {"path": "s3://lake/in", "format": "csv", "schema": "a STRING", "options": {"header": "true"}}},
        {"files": {"path": "s3://lake/in", "format": "json", "schema": "a STRING", "options": {"header": "true"}}},
        {},
    ),
    "format": (
        None,
        {"type": "json", "schema": "a STRING, b STRING"},
        {"type": "json"},
        {"type": "avro", "schema": "{}"},
        {"type": "avro", "registry": {"url": "http://registry:8081"}},
        {"type": "avro", "registry": {"url": "http://registry:8081"}, "confluentSchemaId": 4},
        {"type": "protobuf", "schema": "CgA="},
        {"type": "protobuf", "schema": "CgA=", "messageName": "a.B"},
        {"type": "json", "schema": "a STRING", "registry": {"url": "http://registry:8081"}},
        {"type": "protobuf", "registry": {"url": "http://registry:8081"}, "messageName": "a.B"},
        {
            "type": "avro",
            "registry": {"url": "http://registry:8081", "subjectStrategy": "RecordName", "recordName": "a.B"},
        },
        {"type": "avro", "registry": {"url": "http://registry:8081", "recordName": "a.B"}},
        {"type": "avro", "registry": {"url": "http://registry:8081", "subject": "s", "recordName": "a.B"}},
    ),
    "source.kafka.optionsFrom": (
        {"includeHeaders": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"kafka.client.id": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ),
    "format.confluentSchemaId": (7,),
    "format.timestamps": ("iso", "millis"),
    "format.unknownFields": ("ignore", "column"),
    "schemaEvolution.mode": ("follow", "additive", "off"),
    "format.messageName": ("a.B",),
    "format.envelope": (
        {"type": "debezium"},
        {"type": "debezium", "before": "full"},
        {"type": "debeziumFlat"},
        {"type": "debeziumFlat", "before": "full"},
        {"type": "debezium", "unavailable": "keep"},
    ),
    "table.recordKey": (None, *_NAMES[:6]),
    "table.partitionBy": _NAMES,
    "table.orderingField": ("c",),
    "table.deleteWhen": ("c = 1",),
    "table.path": (*_PATH, *_BELOW),
    "table.name": ("orders", "{topic}_raw"),
    "table.pipeline": ("ns/orders", "ns/{topic}"),
    "tables": ({}, {"overrides": [{"topics": "o.*", "table": {"recordKey": ["a"]}}]}, None),
    "source.kafka.commitGroup": ("g",),
    "source.kafka.startingOffsets": ("earliest", "latest"),
    "table.index": (
        {"type": "state"},
        {"type": "bucket"},
        {"type": "state", "global": True},
        {"type": "state", "global": True, "inserts": "log"},
        {"type": "state", "global": False, "inserts": "base"},
        {"type": "bucket", "buckets": 8},
        {"type": "state", "buckets": 8},
        {"type": "state", "onDuplicateKeys": "report"},
        {"type": "bucket", "onDuplicateKeys": "report"},
        {"type": "bucket", "targetFileSize": "64Mi"},
    ),
    "table.index.type": ("bucket", "state"),
    "table.index.hashFields": _NAMES[:5],
    "table.index.global": (True, False),
    "table.index.partitionBuckets": ([{"pattern": "us", "buckets": 8}], []),
    "table.lock.leaseValidity": _DURATION,
    "table.lock.waitTimeout": _DURATION,
    "table.lock.heldTimeout": _DURATION,
    "table.properties": ({"hoodie.x": "1"}, {"x": "1"}, {"hoodie.table.name": "x"}, {}),
    "commit.mode": ("interval", "checkpoint"),
    "commit.at": ("any", "transaction"),
    "commit.transactionTopic": ("db.transaction",),
    "commit.interval": _DURATION,
    "commit.trigger": (*_DURATION, "once"),
    "services.mode": ("auto", "off", "job"),
    "services.clustering.enabled": (True, False),
    "services.clean.retain": _DURATION,
    "services.clean.versions": (1,),
    "catalogs": (
        [],
        [{}],
        [{"hive": {"database": "a", "uri": "thrift://h:1"}}],
        [{"hive": {"database": "a", "uri": "thrift://h:1", "table": "a_{topic}"}}],
        [{"glue": {"region": "r", "database": "a", "table": "{topic}"}}],
        [{"iceberg": {"type": "glue", "database": "a", "table": "{topic}"}}],
        [{"hive": {"database": "a", "uri": "thrift://h:1"}, "glue": {"database": "a"}}],
        [{"hive": {"database": "a", "uri": "thrift://h:1", "kerberos": {}, "tls": {}}}],
        [{"hive": {"database": "a", "uri": "thrift://h:1", "kerberos": {}, "tls": {"login": _LOGIN}}}],
        [{"hive": {"database": "a", "uri": "thrift://h:1", "tls": {"login": _LOGIN}}}],
        [{"glue": {"database": "a"}}, {"iceberg": {"type": "glue", "database": "a"}}],
        [{"glue": {"database": "a", "catalogId": "123456789012"}}, {"iceberg": {"type": "glue", "database": "a"}}],
        [
            {"hive": {"database": "a", "uri": "thrift://h:1"}},
            {"iceberg": {"type": "hive", "database": "a", "uri": "thrift://h:1"}},
        ],
    ),
    "audit": tuple(
        {"against": f"postgres://u@h/d{more}", "window": {"start": "03:00", "duration": "1h"}}
        for more in ("", "?password=x", "?sslmode=require")
    ),
    "errors.mode": ("deadLetter", "fail"),
    "errors.deadLetterPath": (*_PATH, *_BELOW),
    "checkpoint.path": _PATH,
    "health.maxCommitLag": _DURATION,
    "health.maxInflightAge": _DURATION,
    "slo.commitLatency": _DURATION,
    "slo.freshness": _DURATION,
    "slo.readOptimizedFreshness": _DURATION,
    "spark.executor.instances": (0, 1, 3),
    "spark.executor.maxInstances": (1, 2, 5),
    "spark.conf": ({"spark.x": "1"}, {"x": "1"}, {"spark.master": "x"}, {}),
    "pod.env": (
        [{"name": "A", "value": "x"}],
        [{"name": "A"}],
        [{"name": "A", "value": "x", "secretKeyRef": {"name": "s", "key": "k"}}],
        [{"name": "SPARK_X", "value": "x"}],
    ),
    "pod.volumes": (
        [{"name": "v", "mountPath": "/mnt/a", "secret": "s"}],
        [{"name": "v", "mountPath": "/mnt/a"}],
        [{"name": "v", "mountPath": "/mnt/a", "secret": "s", "configMap": "c"}],
    ),
}
"""Field of the spec -> values that its schema takes, right and wrong; None takes the field away."""

_SECRET: Final = {"type": "avro", "registry": {"url": "http://registry:8081", "secretRef": {"name": "s"}}}
_APPEND: Final[Mapping[str, Any]] = {
    "table.recordKey": None,
    "source.kafka.columns": {"topic": "t", "partition": "p", "offset": "o"},
}
_TABLES: Final[Mapping[str, Any]] = {"tables": {}, "table.path": _TOPIC, "table.name": None, "table.pipeline": None}
_NOT_OF_TABLES: Final[Mapping[str, Any]] = {
    "table.name": "orders",
    "table.pipeline": "ns/orders",
    "errors.deadLetterPath": "s3://lake/bad",
    "source.kafka.commitGroup": "g",
    "source.kafka.startingOffsets": "latest",
    "checkpoint.path": "s3://lake/c",
    "catalogs": [{"glue": {"database": "a", "table": "fixed"}}],
    "audit": {"against": "postgres://u@h/d", "window": {"start": "03:00", "duration": "1h"}},
    "services.mode": "job",
    "services.whileSuspended": True,
    "spark.executor": {"instances": 1, "maxInstances": 2},
    "tables": {
        "overrides": [{"topics": "o", "format": _SECRET}, {"topics": "p", "format": {**_SECRET, "type": "avro"}}]
    },
}
TOGETHER: Final[tuple[Mapping[str, Any], ...]] = (
    {"errors.mode": "fail", "errors.deadLetterPath": "s3://lake/other"},
    {"format": {"type": "avro", "schema": "{}"}, "format.envelope": {"type": "debezium"}},
    {"format": {"type": "avro", "schema": "{}"}, "format.timestamps": "millis"},
    {"table.index": {"type": "bucket", "inserts": "base"}},
    {"slo.readOptimizedFreshness": "1h", "services.mode": "off"},
    {
        "source": {"files": {"path": "s3://lake/in", "format": "parquet"}},
        "format": None,
        "table.path": "s3://lake/in/t",
    },
    {
        "source": {"files": {"path": "s3://lake/in", "format": "parquet"}},
        "format": None,
        "errors.deadLetterPath": "s3://lake/in/bad",
    },
    {"source": {"rate": {"rowsPerSecond": 1}}, "format": None, "spark.executor": {"instances": 1, "maxInstances": 2}},
    _APPEND,
    {**_APPEND, "format.envelope": {"type": "debezium"}},
    {**_APPEND, "table.deleteWhen": "c = 1"},
    {"format.envelope": {"type": "debezium"}, "table.partitionBy": ["c"]},
    {"format.envelope": {"type": "debezium", "unavailable": "keep"}},
    {"format.envelope": {"type": "debezium"}, "table.orderingField": "c"},
    {"format.envelope": {"type": "debezium"}, "commit.at": "transaction"},
    {"format.envelope": {"type": "debezium"}, "commit.at": "transaction", "source.kafka.startingOffsets": "latest"},
    {"format.envelope": {"type": "debeziumFlat"}, "commit.at": "transaction"},
    {"format": {"type": "avro", "schema": "{}"}, "format.unknownFields": "column"},
    _TABLES,
    {**_TABLES, "format.envelope": {"type": "debezium"}, "commit.at": "transaction"},
    {
        **_TABLES,
        "format.envelope": {"type": "debezium"},
        "commit": {"at": "transaction", "transactionTopic": "db.transaction"},
    },
    *({**_TABLES, field: value} for field, value in _NOT_OF_TABLES.items()),
    {**_TABLES, "format": _SECRET, "tables": _NOT_OF_TABLES["tables"]},
)
"""What is wrong only together."""

RIGHT: Final[Node] = {
    "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}},
    "format": {"type": "json", "schema": "a STRING, b STRING"},
    "table": {"path": "s3://lake/orders", "recordKey": ["a", "b"]},
}


@functools.cache
def schema() -> Node:
    (version,) = custom_resource_definition()["spec"]["versions"]
    node: Node = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return node


@functools.cache
def compiled(rule: str) -> cel.Program:
    return cel.compile(rule)


def with_defaults(value: Any, node: Node) -> Any:
    """The value as the API server completes it before it evaluates rules."""
    if isinstance(value, dict) and "properties" in node:
        filled = {**value}
        for name, part in node["properties"].items():
            if name not in filled and "default" in part:
                filled[name] = part["default"]
            if name in filled:
                filled[name] = with_defaults(filled[name], part)
        return filled
    if isinstance(value, list):
        return [with_defaults(each, node["items"]) for each in value]
    return value


_UNITS: Final = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9} | {f"{unit}i": 1024.0**n for n, unit in enumerate("KMGTP", 1)}


def quantity(text: str) -> float:
    number = text.rstrip("KMGTPikm")
    return float(number) * _UNITS.get(text[len(number) :], 1.0)


_OF_KUBERNETES: Final[Mapping[str, Callable[..., Any]]] = {
    "lowerAscii": str.lower,
    "quantity": quantity,
    "compareTo": lambda one, other: (one > other) - (one < other),
    "substring": lambda text, start: text[start:],
}
"""Functions that Kubernetes adds to CEL."""


def refused_by_server(value: Any, node: Node, path: str = "spec") -> Iterator[str]:
    """What the API server says of the value, each with its place. Without what is required it evaluates no rule."""
    if missing := [name for name in node.get("required", ()) if isinstance(value, dict) and name not in value]:
        yield f"{path}: {missing} is required"
        return
    for rule in node.get("x-kubernetes-validations", ()):
        if "oldSelf" in rule["rule"]:
            continue
        context = cel.Context({"self": value})
        for name, function in _OF_KUBERNETES.items():
            context.add_function(name, function)
        if compiled(rule["rule"]).execute(context) is not True:
            yield f"{path}: {rule['message']}"
    if isinstance(value, dict):
        for name, part in node.get("properties", {}).items():
            if name in value:
                yield from refused_by_server(value[name], part, f"{path}.{name}")
    if isinstance(value, list):
        for each in value:
            yield from refused_by_server(each, node["items"], f"{path}[]")


def refused_by_validate(spec: Node) -> list[str]:
    resource = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": "orders"},
        "spec": spec,
    }
    try:
        parse_object(resource)
    except SpecError as error:
        return str(error).split("\n")
    return []


def changed(changes: Mapping[str, Any]) -> Node:
    """The right spec with these fields set; a change below a part that is absent makes the part."""
    spec: Node = {name: {**part} for name, part in RIGHT.items()}
    for path, value in sorted(changes.items(), key=lambda change: change[0].count(".")):
        *parents, last = path.split(".")
        node = spec
        for name in parents:
            node[name] = {**(node.get(name) or {})}
            node = node[name]
        node.pop(last, None)
        if value is not None:
            node[last] = value
    return spec


VALIDATE_ONLY: Final = (
    "which belongs to Spark, Kubernetes or the job",
    "spec.format.registry.subject: is required",
    "spec.format.registry.recordName: is required",
)
"""What only `validate`, the job and the operator say: CEL has no cost left for it, or lacks another field."""

_ONE_FIELD: Final = ("must be a", "must be once, or a duration", "options of")
"""Beginnings of rules of one field: made with the field from one definition, or one for each format of files."""


def specs() -> Iterator[Node]:
    """Each value of the pools alone, then random ones together."""
    yield from (changed({path: value}) for path, values in POOLS.items() for value in values)
    yield from map(changed, TOGETHER)
    source = random.Random(20270101)
    for _ in range(700):
        chosen = source.sample(sorted(POOLS.items()), source.randint(2, 4))
        yield changed({path: source.choice(values) for path, values in chosen})


def rules(node: Node) -> Iterator[str]:
    """The message of every rule of a schema that looks at no older value."""
    yield from (rule["message"] for rule in node.get("x-kubernetes-validations", ()) if "oldSelf" not in rule["rule"])
    for part in (*node.get("properties", {}).values(), node.get("items")):
        if isinstance(part, dict):
            yield from rules(part)


def test_the_api_server_and_validate_refuse_the_same_specs() -> None:
    broken: set[str] = set()
    for spec in specs():
        server, own = list(refused_by_server(with_defaults(spec, schema()), schema())), refused_by_validate(spec)
        broken.update(said.split(": ", 1)[1] for said in server)
        assert own or not server, f"validate takes what the API server refuses: {server}: {spec}"
        only_own = [said for said in own if not any(words in said for words in VALIDATE_ONLY)]
        assert server or not only_own, f"the API server takes what validate refuses: {only_own}: {spec}"
    never = {message for message in rules(schema()) if not message.startswith(_ONE_FIELD)} - broken
    assert not never, "no spec of this test breaks these: add a value to POOLS"
