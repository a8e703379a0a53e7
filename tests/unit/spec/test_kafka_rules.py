"""Rules of a Kafka source: options that other fields set, and where it starts."""

from collections.abc import Callable
from typing import Any

import pytest

from bucketingest.spec.fields.options import KAFKA_READING
from bucketingest.stream.spark.conf import REQUIRED_CONF

Find = Callable[[dict[str, Any]], list[str]]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("subscribe", "use topics"),
        ("kafka.bootstrap.servers", "use bootstrapServers"),
        ("startingoffsets", "use startingOffsets of the source"),
        ("KAFKA.ENABLE.AUTO.COMMIT", "offsets are kept in the table's timeline"),
    ],
)
def test_kafka_options_that_we_set_are_refused_in_any_spelling(problems: Find, name: str, why: str) -> None:
    field = f"options.{name}" if "." not in name else f'options["{name}"]'
    assert problems({"spec.source.kafka.options": {name: "x"}}) == [
        f"spec.source.kafka.{field}: cannot be set here: {why}"
    ]


def test_other_kafka_options_pass(problems: Find) -> None:
    options = {"failOnDataLoss": "false", "kafka.security.protocol": "SSL", "kafka.group.id": "x", "minPartitions": "8"}
    assert problems({"spec.source.kafka.options": options}) == []


@pytest.mark.parametrize("text", ["earliest", "latest", '{"orders":{"0":23,"1":-2}}', ' {"a":{"0":0}} '])
def test_starting_offsets_may_be_words_or_json(problems: Find, text: str) -> None:
    assert problems({"spec.source.kafka.startingOffsets": text}) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{orders: 1}", "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"orders": 5}', "has no partitions for the topic orders"),
        ('{"orders": {"x": 5}}', "names 'x' as a partition of the topic orders"),
        ('{"orders": {"0": -3}}', "has the offset -3 for orders partition 0"),
        ('{"orders": {"0": true}}', "has the offset True for orders partition 0"),
    ],
)
def test_starting_offsets_that_spark_would_not_take_are_reported(problems: Find, text: str, wrong: str) -> None:
    allowed = 'JSON text {"TOPIC":{"PARTITION":OFFSET}} with offsets from 0, or -1 for latest, -2 for earliest'
    assert problems({"spec.source.kafka.startingOffsets": text}) == [
        f"spec.source.kafka.startingOffsets: {wrong}; allowed: {allowed}"
    ]


def from_secret(option: str, **reference: str) -> dict[str, Any]:
    return {
        "spec.source.kafka.optionsFrom": {option: {"secretKeyRef": {"name": "user", "key": "user.key", **reference}}}
    }


def test_options_may_come_from_single_keys_of_secrets(problems: Find) -> None:
    assert problems(from_secret("kafka.ssl.keystore.key")) == []


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("subscribe", "cannot be set here: use topics"),
        ("Kafka.Bootstrap.Servers", "cannot be set here: use bootstrapServers"),
        ("../../etc/passwd", "is not a name of an option; allowed: letters, digits, '-', '_' and '.'"),
        ("..data", "is not a name of an option; allowed: letters, digits, '-', '_' and '.'"),
    ],
)
def test_keys_of_secrets_are_options_that_a_user_may_set(problems: Find, name: str, wrong: str) -> None:
    (message,) = problems(from_secret(name))
    assert message.endswith(f": {wrong}")


def test_an_option_has_one_place(problems: Find) -> None:
    plain = {"spec.source.kafka.options": {"kafka.ssl.keystore.key": "x"}}
    assert problems({**plain, **from_secret("kafka.ssl.keystore.key")}) == [
        'spec.source.kafka.optionsFrom["kafka.ssl.keystore.key"]: is set in options too; allowed: each option once'
    ]


def test_another_namespaces_secret_cannot_be_named(problems: Find) -> None:
    assert problems(from_secret("kafka.ssl.keystore.key", namespace="kube-system"))
    assert problems(from_secret("kafka.ssl.keystore.key", name="kube-system/x"))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("isolation.level", "does nothing without kafka. before it; allowed: kafka.isolation.level"),
        ("Security.Protocol", "does nothing without kafka. before it; allowed: kafka.security.protocol"),
        ("kafka.isolation.levle", "is not an option that Kafka's client reads; allowed: perhaps kafka.isolation.level"),
        ("KAFKA.retries", "is not spelled so; allowed: kafka.retries"),
        ("failondataloss", "is not spelled so; allowed: failOnDataLoss"),
        ("minPartition", "is not an option that Spark's Kafka source reads; allowed: perhaps minPartitions"),
        ("color", "is not an option that Spark's Kafka source reads"),
    ],
)
def test_an_option_that_nobody_reads_is_refused_with_the_right_name(problems: Find, name: str, wrong: str) -> None:
    key = f'["{name}"]' if "." in name else f".{name}"
    assert problems({"spec.source.kafka.options": {name: "x"}}) == [f"spec.source.kafka.options{key}: {wrong}"]
    secret = problems(from_secret(name))
    assert secret == [f"spec.source.kafka.optionsFrom{key}: {wrong}"]


def test_classes_of_a_user_s_own_may_have_options_of_any_name(problems: Find) -> None:
    options = {"kafka.sasl.login.callback.handler.class": "com.example.Handler", "kafka.com.example.realm": "x"}
    assert problems({"spec.source.kafka.options": options}) == []


@pytest.mark.parametrize("name", KAFKA_READING)
def test_each_option_of_spark_s_source_may_be_set(problems: Find, name: str) -> None:
    assert problems({"spec.source.kafka.options": {name: "1"}}) == []


@pytest.mark.parametrize(
    ("file_format", "name", "wrong"),
    [
        ("csv", "headr", "is not an option that the source of csv files reads; allowed: perhaps header"),
        ("json", "header", "is not an option that the source of json files reads"),
        ("parquet", "header", "is not an option that the source of parquet files reads"),
        ("parquet", "maxFileAge", "cannot be set here: every file is read, however old"),
        ("csv", "inferSchema", "cannot be set here: give the columns in schema"),
        ("csv", "header", "is 'x'; allowed: true or false"),
        ("csv", "encoding", "is 'x'; allowed: the name of an encoding, such as UTF-8 or ISO-8859-1"),
        ("csv", "sep", None),
    ],
)
def test_an_option_of_files_is_refused_if_nobody_reads_it_or_its_value_is_none(
    problems: Find, file_format: str, name: str, wrong: str | None
) -> None:
    files = {"path": "s3://lake/raw", "format": file_format, "schema": "id BIGINT", "options": {name: "x"}}
    found = problems({"spec.source": {"files": files}, "spec.format": None})
    expected = [] if wrong is None else [f"spec.source.files.options.{name}: {wrong}"]
    assert [each for each in found if "options" in each] == expected


@pytest.mark.parametrize("name", REQUIRED_CONF)
def test_a_setting_that_the_job_sets_whatever_the_spec_says_is_refused(problems: Find, name: str) -> None:
    assert any("cannot be set here" in each for each in problems({"spec.spark.conf": {name: "x"}}))
