"""No secret leaves the process, and other text stays readable."""

import uuid

import pytest

from bucketingest.redaction import HIDDEN, Redactor, all_secret, keep_secret, redacted, secrets_in

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="pa55word!";'


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("cannot reach https://me:hunter22@host:9092/x", "hunter22"),
        ("s3://AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI@bucket/x", "wJalrXUtnFEMI"),
        ("key AKIAIOSFODNN7EXAMPLE is unknown", "AKIAIOSFODNN7EXAMPLE"),
        (f"kafka.sasl.jaas.config={JAAS} next", "pa55word!"),
        (f'"kafka.sasl.jaas.config": "{JAAS}"', "pa55word!"),
        (f"Invalid login module: {JAAS}", "pa55word!"),
        ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG, region=x", "wJalrXUtnFEMI/K7MDENG"),
        ("fs.s3a.secret.key: wJalrXUtnFEMI", "wJalrXUtnFEMI"),
        ("fs.s3a.access.key=SOMEACCESSKEY1", "SOMEACCESSKEY1"),
        ('{"aws_session_token": "FwoGZXIvYXdzE"}', "FwoGZXIvYXdzE"),
        (r"options {\"password\": \"with space and , comma\"}", "with space"),
        ("password = 'with space'", "with space"),
        ("DefaultEndpointsProtocol=https;AccountKey=abcd1234==;EndpointSuffix=x", "abcd1234"),
        ("https://a.blob.core.windows.net/c?sv=2024&sig=abcDEF%3D&x=1", "abcDEF%3D"),
        ("GET https://b.s3/x?X-Amz-Credential=AK%2F2026&X-Amz-Signature=feedbeef", "feedbeef"),
        ("GET https://b.s3/x?X-Amz-Security-Token=IQoJb3JpZ2lu", "IQoJb3JpZ2lu"),
        ("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30", "eyJhbGciOiJIUzI1NiJ9"),
        ("ssl.keystore.password=changeit1", "changeit1"),
        ("InvalidToken: eyJhbGciOiJIUzI1NiJ9 is malformed", "eyJhbGciOiJIUzI1NiJ9"),
        ("invalid_token=abcdefgh now", "abcdefgh"),
        ("token: secretword and more", "secretword"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, secret: str) -> None:
    assert secret in text
    redacted = Redactor()(text)
    assert secret not in redacted
    assert HIDDEN in redacted


@pytest.mark.parametrize(
    "text",
    [
        "s3://lake/orders/.hoodie/20261121120000000.deltacommit: access denied; check the credentials",
        "table /data/orders is refused:\n  - its record key is [id], the spec says [order_id]",
        "topics: orders@2, startingOffsets: earliest",
        "commit.interval: 30s; https://hudi.apache.org/docs?x=1",
        "no basic right to write",
        "spec.source.kafka.secretRef: names the Secret kafka-credentials",
        "SignatureDoesNotMatch: The request signature we calculated does not match the signature you provided",
        '{"Code": "x", "InvalidAccessKeyId": "The access key that you provided does not exist"}',
        "the server answered 400 ExpiredToken: The provided token has expired",
        "TokenRefreshRequired: the token must be refreshed",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert Redactor()(text) == text


def test_the_rest_of_a_message_stays_readable() -> None:
    text = "kafka:9092 says SaslAuthentication; sasl.jaas.config=Foo required password=x1234567; topic orders"
    assert Redactor()(text) == f"kafka:9092 says SaslAuthentication; sasl.jaas.config={HIDDEN} topic orders"


def test_known_secrets_are_hidden_wherever_they_are() -> None:
    secrets = secrets_in(
        {
            "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI",
            "HOME": "/home/me",
            "DB_PASSWORD": "short",
            "PWD": "/home/me/work",
            "OLDPWD": "/home/me",
            "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token",
        },
        {"kafka.sasl.jaas.config": JAAS, "kafka.group.id": "loaders"},
    )
    assert secrets == {"wJalrXUtnFEMI", "short", JAAS, "pa55word!"}
    redact = Redactor(secrets)
    assert redact("odd place for wJalrXUtnFEMI and pa55word!") == f"odd place for {HIDDEN} and {HIDDEN}"
    assert redact("a short way to /home/me") == "a short way to /home/me"


def test_of_secrets_that_hold_each_other_nothing_is_left() -> None:
    assert Redactor(["abcdef", "abcdefghij"])("x abcdefghij y") == f"x {HIDDEN} y"


def test_values_of_a_secret_are_hidden_whatever_their_names_are_and_in_parts() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----"
    secrets = all_secret(
        {
            "kafka.sasl.jaas.config": "x.Module required clientId='loader' clientSecret=\"s3cr3t-of-this\";",
            "kafka.ssl.keystore.key": key,
            "kafka.client.id": "who-we-are",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
        }
    )
    redact = Redactor(secrets)
    for text in ("s3cr3t-of-this", "loader", "MIIEvQIBADANBgkqhkiG9w0B", key.replace("\n", "\\n"), "who-we-are"):
        assert text not in redact(f"message: {text}."), text
    message = "no broker speaks SASL_SSL with SCRAM-SHA-512; -----BEGIN PRIVATE KEY----- is missing"
    assert redact(message) == message


def test_what_was_kept_as_a_secret_is_hidden_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    word = uuid.uuid4().hex  # it stays hidden as long as this process lives
    monkeypatch.setenv("MY_PASSWORD", "of-the-environment")
    assert redacted(f"{word} of-the-environment") == f"{word} {HIDDEN}"
    keep_secret([word])
    assert redacted(f"{word} of-the-environment") == f"{HIDDEN} {HIDDEN}"
