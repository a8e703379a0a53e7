"""Options of Java's client become librdkafka's only where both mean the same."""

from __future__ import annotations

from typing import Any

import pytest

from bucketingest.decode.kafka.client_options import Client, NotTranslated, client_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def made(**options: str) -> dict[str, Any]:
    return dict(
        client_of("b:9092", {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}).properties
    )


def login(mechanism: str, jaas: str, **options: str) -> dict[str, Any]:
    return made(security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_jaas_config=jaas, **options)


def test_without_options_only_committed_messages_are_read_and_all_else_is_as_java_has_it() -> None:
    properties = made()
    assert properties["bootstrap.servers"] == "b:9092"
    assert properties["isolation.level"] == "read_committed"
    assert properties["security.protocol"] == "PLAINTEXT"
    assert properties["check.crcs"] is True
    assert properties["auto.offset.reset"] == "error"
    assert properties["enable.auto.commit"] is False
    assert properties["group.id"] == "spark-kafka-source-bucketingest"


def test_what_spark_itself_reads_is_no_matter_of_the_client() -> None:
    options = {"failOnDataLoss": "false", "minPartitions": 4, "groupIdPrefix": "mine", "kafkaConsumer.pollTimeoutMs": 5}
    assert client_of("b:9092", options).properties == {**made(), "group.id": "mine-bucketingest"}


def test_options_of_another_name_are_translated_and_limits_of_memory_are_not_taken() -> None:
    properties = made(
        isolation_level="read_committed",
        fetch_max_wait_ms="7",
        request_timeout_ms="9000",
        client_id="me",
        client_rack="here",
        group_id="ours",
        max_poll_records="1",
        fetch_max_bytes="1",
    )
    assert properties["isolation.level"] == "read_committed"
    assert properties["fetch.wait.max.ms"] != "7"
    assert properties["socket.timeout.ms"] == "9000"
    assert (properties["client.id"], properties["client.rack"], properties["group.id"]) == ("me", "here", "ours")
    assert "fetch.max.bytes" not in properties


@pytest.mark.parametrize(
    ("given", "wanted"), [({}, "https"), ({"ssl_endpoint_identification_algorithm": ""}, "none")], ids=["https", "none"]
)
def test_names_of_hosts_are_verified_unless_that_is_switched_off(given: dict[str, str], wanted: str) -> None:
    properties = made(security_protocol="SSL", **given)
    assert properties["ssl.endpoint.identification.algorithm"] == wanted
    assert properties["ssl.ca.location"] == "probe"


def test_pem_in_options_and_in_files() -> None:
    inline = made(
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_certificates="CA",
        ssl_keystore_type="PEM",
        ssl_keystore_certificate_chain="CERT",
        ssl_keystore_key="KEY",
        ssl_key_password="word",
    )
    assert (inline["ssl.ca.pem"], inline["ssl.certificate.pem"], inline["ssl.key.pem"]) == ("CA", "CERT", "KEY")
    assert inline["ssl.key.password"] == "word"
    assert "ssl.ca.location" not in inline
    files = made(
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_location="/ca.pem",
        ssl_keystore_type="PEM",
        ssl_keystore_location="/own.pem",
    )
    assert files["ssl.ca.location"] == "/ca.pem"
    assert files["ssl.certificate.location"] == files["ssl.key.location"] == "/own.pem"


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_a_login_with_name_and_password(mechanism: str, module: str) -> None:
    jaas = f'{module} required\n  username="me"\n  password="p=;\'ä w";'
    properties = login(mechanism, jaas)
    assert properties["sasl.mechanism"] == mechanism
    assert (properties["sasl.username"], properties["sasl.password"]) == ("me", "p=;'ä w")


@pytest.mark.parametrize(
    "jaas",
    [
        "",
        f'{SCRAM} required username="me" password="secret";',
        f'{PLAIN} optional username="me" password="secret";',
        f'{PLAIN} required username="me";',
        f'{PLAIN} required username="me" password="secret" tokenauth="true";',
        f'{PLAIN} required username="me" username="you";',
        f'{PLAIN} required username="me" password="secret" tokenauth=true;',
        f'{PLAIN} required username="me" password="sec\\"ret";',
        f"{PLAIN} required username=me password=secret;",
        f'{PLAIN} required username="me"password="secret";',
        f'{PLAIN} required username="me" password="secret"; {PLAIN} required username="a" password="secret";',
        'com.example.Login required username="me" password="secret";',
    ],
)
def test_another_login_is_sparks_and_its_password_is_not_repeated(jaas: str) -> None:
    with pytest.raises(NotTranslated, match=r"kafka\.sasl\.jaas\.config") as raised:
        login("PLAIN", jaas)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kafka.security.protocol": "ssl"}, "kafka.security.protocol is ssl"),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism is GSSAPI"),
        ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/t.jks"}, "truststore.type is JKS"),
        ({"kafka.ssl.truststore.password": "secret"}, "the options set kafka.ssl.truststore.password"),
        (
            {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.keystore.type": "PKCS12",
                "kafka.ssl.keystore.location": "/k",
            },
            "keystore.type is PKCS12",
        ),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.endpoint.identification.algorithm": "ldap"}, "is ldap"),
        ({"kafka.isolation.level": "1"}, "kafka.isolation.level is 1"),
        ({"kafka.sasl.login.class": "secret"}, "the options set kafka.sasl.login.class"),
        ({"Kafka.Client.Id": "me"}, "the options set Kafka.Client.Id"),
        ({"kafka.config.providers": "file"}, "the options set kafka.config.providers"),
    ],
)
def test_what_only_java_does_is_sparks(options: dict[str, str], why: str) -> None:
    with pytest.raises(NotTranslated, match=why.replace(".", r"\.")) as raised:
        client_of("b:9092", options)
    assert "secret" not in str(raised.value)


def test_a_client_shows_no_secret() -> None:
    client = Client({"sasl.password": "hunter22", "ssl.key.pem": "-----BEGIN KEY-----"})
    assert repr(client) == "Client()"
    assert client.without_secrets("denied: hunter22, -----BEGIN KEY-----") == "denied: ***, ***"
