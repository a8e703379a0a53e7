"""Rules of a Kafka source: options that other fields set, and where it starts."""

from collections.abc import Callable
from typing import Any

import pytest

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
    plain = {"spec.source.kafka.options": {"KAFKA.ssl.keystore.key": "x"}}
    assert problems({**plain, **from_secret("kafka.ssl.keystore.key")}) == [
        'spec.source.kafka.optionsFrom["kafka.ssl.keystore.key"]: is set in options too; allowed: each option once'
    ]


def test_another_namespaces_secret_cannot_be_named(problems: Find) -> None:
    assert problems(from_secret("kafka.ssl.keystore.key", namespace="kube-system"))
    assert problems(from_secret("kafka.ssl.keystore.key", name="kube-system/x"))
