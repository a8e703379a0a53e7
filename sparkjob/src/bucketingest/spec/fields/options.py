"""Which options and settings a user may give: not those that bucketingest sets itself, and none that nobody would read:
Spark and Kafka's client say nothing of a name that they do not know.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from typing import Final, NamedTuple

OPTION_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
"""An option that is a key of a Secret: a file in a folder."""

KAFKA_OPTIONS: Final[dict[str, str]] = {
    "kafka.bootstrap.servers": "use bootstrapServers",
    "subscribe": "use topics",
    "subscribePattern": "use topicPattern",
    "assign": "use topics",
    "startingOffsets": "use startingOffsets of the source",
    "startingOffsetsByTimestamp": "use startingOffsets of the source",
    "startingOffsetsByTimestampStrategy": "use startingOffsets of the source",
    "startingTimestamp": "use startingOffsets of the source",
    "endingOffsets": "a stream has no end",
    "endingOffsetsByTimestamp": "a stream has no end",
    "endingTimestamp": "a stream has no end",
    "maxOffsetsPerTrigger": "use maxOffsetsPerTrigger of the source",
    "minOffsetsPerTrigger": "use commit.trigger",
    "maxTriggerDelay": "use commit.trigger",
    "includeHeaders": "use columns.headers of the source",
    "kafka.auto.offset.reset": "use startingOffsets of the source",
    "kafka.enable.auto.commit": "offsets are kept in the table's timeline",
    "kafka.key.deserializer": "keys and values are read as bytes",
    "kafka.value.deserializer": "keys and values are read as bytes",
    "kafka.interceptor.classes": "Spark's Kafka source does not allow it",
}
"""Option of Spark's Kafka source → what to do instead. Spark compares names without regard to case."""

FILES_OPTIONS: Final[dict[str, str]] = {
    "path": "use path of the source",
    "charset": "use encoding",
    "delimiter": "use sep",
    "maxFilesPerTrigger": "use maxFilesPerTrigger of the source",
    "maxBytesPerTrigger": "use maxBytesPerTrigger of the source",
    "maxFileAge": "every file is read, however old",
    "latestFirst": "files are read in the order of their times and names",
    "maxCachedFiles": "files that wait are remembered up to a limit of its own",
    "fileNameOnly": "a file is known by its path below the source",
    "recursiveFileLookup": "directories below the source's are always read",
    "basePath": "values in names of directories below the source's are columns",
    "modifiedBefore": "every file is read, whatever its time; use startAfter for a name",
    "modifiedAfter": "every file is read, whatever its time; use startAfter for a name",
    "cleanSource": "source files are never moved or deleted",
    "sourceArchiveDir": "source files are never moved or deleted",
    "ignoreCorruptFiles": "use errors.mode: a damaged file is a dead letter, or stops the job",
    "ignoreMissingFiles": "use errors.mode: a file that is gone is a dead letter, or stops the job",
    "mergeSchema": "give all columns in schema; a file that lacks one has null there",
    "mode": "use errors.mode: a record that cannot be read is a dead letter, or stops the job",
    "columnNameOfCorruptRecord": "a record that cannot be read is in the dead-letter table",
    "enforceSchema": "names of a header always decide",
    "inferSchema": "give the columns in schema",
    "prefersDecimal": "give the columns in schema",
    "primitivesAsString": "give the columns in schema",
    "samplingRatio": "give the columns in schema",
    "dropFieldIfAllNull": "give the columns in schema",
    "preferDate": "give the columns in schema",
    "emptyValue": "what is empty in quotes is empty text; use transform.sql for another value",
    "nanValue": "write NaN; or read STRING, and convert it in transform.sql",
    "positiveInf": "write Infinity; or read STRING, and convert it in transform.sql",
    "negativeInf": "write -Infinity; or read STRING, and convert it in transform.sql",
    "dateFormat": "read STRING, and use to_date in transform.sql",
    "timestampFormat": "read STRING, and use to_timestamp in transform.sql",
    "timestampNTZFormat": "read STRING, and use to_timestamp_ntz in transform.sql",
    "locale": "read STRING, and convert it in transform.sql",
    "timeZone": "times without a zone are UTC; use from_utc_timestamp in transform.sql",
    "ignoreLeadingWhiteSpace": "use trim in transform.sql; numbers and times are trimmed",
    "ignoreTrailingWhiteSpace": "use trim in transform.sql; numbers and times are trimmed",
    "comment": "a line is never left out; use a WHERE in transform.sql",
    "lineSep": "lines end with a line feed, and a carriage return before it or none",
    "maxColumns": "the schema says how many there are",
    "maxCharsPerColumn": "a record has at most 4 MiB in csv, a line 256 MiB in json",
    "unescapedQuoteHandling": "values are quoted as RFC 4180 says",
    "charToEscapeQuoteEscaping": "values are quoted as RFC 4180 says, or with escape",
    "allowComments": "JSON has no comments",
    "allowUnquotedFieldNames": "JSON's names are quoted",
    "allowSingleQuotes": "JSON's texts are in double quotes",
    "allowNumericLeadingZeros": "JSON's numbers have none",
    "allowNonNumericNumbers": "they are read as in messages",
    "allowBackslashEscapingAnyCharacter": "JSON escapes what must be escaped",
    "allowUnquotedControlChars": "JSON's texts have none",
    "datetimeRebaseMode": "files of Spark 2 with times before 1900 are refused",
    "int96RebaseMode": "files of Spark 2 with times before 1900 are refused",
    "wholeText": "a row is a record",
    "compression": "the ending of a file's name says it",
}
"""Option of Spark's file source → why it is not set, or what to do instead."""

SPARK_SETTINGS: Final[dict[str, str]] = {
    "spark.sql.session.timeZone": "it is UTC on every machine",
    "spark.sql.adaptive.enabled": "nothing may change the number of write tasks",
    "spark.sql.execution.arrow.maxBytesPerBatch": "memory is bounded by other limits",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "memory is bounded by this",
    "spark.sql.optimizer.enableJsonExpressionOptimization": "records that cannot be decoded would be missed",
    "spark.sql.streaming.metricsEnabled": "the job has metrics of its own",
    "spark.app.id": "it is made from the name of the BucketIngest",
    "spark.app.name": "it is the name of the BucketIngest",
    "spark.master": "the operator or the command line decides it",
    "spark.submit.deployMode": "it is always client",
    "spark.driver.cores": "use spark.driver.cores of the spec",
    "spark.driver.memory": "use spark.driver.memory of the spec",
    "spark.executor.cores": "use spark.executor.cores of the spec",
    "spark.executor.instances": "use spark.executor.instances of the spec",
    "spark.executor.memory": "use spark.executor.memory of the spec",
    "spark.kubernetes.container.image": "use spark.image of the spec",
    "spark.sql.streaming.checkpointLocation": "use checkpoint.path",
}
"""Spark setting → what to do instead."""

TABLE_PROPERTIES: Final[tuple[str, ...]] = (
    "hoodie.allow.operation.metadata.field",
    "hoodie.archivelog.folder",
    "hoodie.bucket.index.",
    "hoodie.compaction.payload.class",
    "hoodie.compaction.record.merger.strategy",
    "hoodie.database.name",
    "hoodie.datasource.write.",
    "hoodie.index.",
    "hoodie.metadata.",
    "hoodie.partition.metafile.",
    "hoodie.populate.meta.fields",
    "hoodie.record.merge.",
    "hoodie.table.",
    "hoodie.timeline.",
)
"""Prefixes of the names of table properties that follow from other fields of the spec, or would make our commits
wrong or invisible (`hoodie.metadata.*`, `hoodie.populate.meta.fields`). Names as Hudi 1.2.0 writes them."""

KAFKA_READING: Final = (
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "maxRecordsPerPartition",
    "minPartitions",
)
"""Options of Spark's Kafka source (4.2) that are not refused above."""
_CLIENT: Final = frozenset(
    [
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "auto.offset.reset",
        "bootstrap.controllers",
        "bootstrap.servers",
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.auto.commit",
        "enable.metrics.push",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "interceptor.classes",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.client.callback.handler.class",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.mechanism",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "security.providers",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "value.deserializer",
    ]
)
"""Options of Java's Kafka client: consumer and admin client of kafka-clients 3.9 and 4.1."""
_OWN_CLASSES: Final = ("class", "classes", "config.providers", "metric.reporters", "security.providers")
"""How the names end of options that bring classes of a user's own, which may have options of any name."""
FILES_READING: Final[dict[str, tuple[str, ...]]] = {
    "avro": ("pathGlobFilter",),
    "csv": ("encoding", "escape", "header", "nullValue", "pathGlobFilter", "quote", "sep"),
    "json": ("encoding", "multiLine", "pathGlobFilter"),
    "parquet": ("pathGlobFilter",),
}
"""Format of files → the options that it has."""


class WrongOption(NamedTuple):
    """Why an option is refused."""

    wrong: str
    allowed: str = ""


def wrong_kafka_option(name: str, given: Collection[str]) -> WrongOption | None:
    """Why a Kafka source cannot have the option. `given`: the names of all. Pure."""
    if (advice := _REFUSED_OF_KAFKA.get(name.lower())) is not None:
        return WrongOption(f"cannot be set here: {advice}")
    if name in KAFKA_READING:
        return None
    if not name.startswith("kafka."):
        if name.lower() in _CLIENT:
            return WrongOption("does nothing without kafka. before it", f"kafka.{name.lower()}")
        return _unknown(name, "Spark's Kafka source", [*KAFKA_READING, *(f"kafka.{each}" for each in _CLIENT)])
    client = name.removeprefix("kafka.")
    if client in _CLIENT or any(each.startswith("kafka.") and each.endswith(_OWN_CLASSES) for each in given):
        return None
    return _unknown(name, "Kafka's client", [f"kafka.{each}" for each in _CLIENT])


def wrong_files_option(name: str, file_format: str) -> WrongOption | None:
    """Why a source of files of this format cannot have the option. Pure."""
    if (advice := _REFUSED_OF_FILES.get(name.lower())) is not None:
        return WrongOption(f"cannot be set here: {advice}")
    known = FILES_READING[file_format]
    if name in known:
        return None
    return _unknown(name, f"the source of {file_format} files", known)


def _unknown(name: str, reader: str, known: Collection[str]) -> WrongOption:
    by_lower = {each.lower(): each for each in known}
    if name.lower() in by_lower:
        return WrongOption("is not spelled so", by_lower[name.lower()])
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.8)
    return WrongOption(f"is not an option that {reader} reads", f"perhaps {by_lower[near[0]]}" if near else "")


_REFUSED_OF_KAFKA: Final = {name.lower(): advice for name, advice in KAFKA_OPTIONS.items()}
_REFUSED_OF_FILES: Final = {name.lower(): advice for name, advice in FILES_OPTIONS.items()}
