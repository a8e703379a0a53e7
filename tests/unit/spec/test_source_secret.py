"""Options of a Kafka source that its Secret holds, as Kubernetes mounts one."""

from pathlib import Path

import pytest

from bucketingest.spec.errors import SpecError
from bucketingest.spec.fields.source import KafkaSource
from bucketingest.spec.fields.source_secret import COUNT_MAX, OPTIONS_VARIABLE, SIZE_MAX, read_options, secret_options

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="pa55word!";'


def mounted(folder: Path, **values: bytes) -> Path:
    """A Secret as a kubelet shows it: links to files in a folder that a link names."""
    version = folder / "..2026_11_21_12_00_00.1"
    version.mkdir(parents=True)
    (folder / "..data").symlink_to(version.name)
    for name, value in values.items():
        key = name.replace("__", ".")
        (version / key).write_bytes(value)
        (folder / key).symlink_to(f"..data/{key}")
    return folder


def kafka(secret: str | None = "kafka-credentials") -> KafkaSource:
    document: dict[str, object] = {"bootstrapServers": "kafka:9092", "topics": ["orders"]}
    return KafkaSource.model_validate(document if secret is None else {**document, "secretRef": {"name": secret}})


def test_every_key_is_an_option_and_links_of_kubernetes_are_not(tmp_path: Path) -> None:
    folder = mounted(tmp_path / "s", kafka__sasl__jaas__config=JAAS.encode(), kafka__security__protocol=b"SASL_SSL\n")
    assert secret_options(kafka(), {OPTIONS_VARIABLE: str(folder)}) == {
        "kafka.sasl.jaas.config": JAAS,
        "kafka.security.protocol": "SASL_SSL",
    }


def test_a_key_of_several_lines_keeps_them(tmp_path: Path) -> None:
    pem = b"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
    folder = mounted(tmp_path / "s", kafka__ssl__keystore__key=pem)
    assert read_options(folder)["kafka.ssl.keystore.key"] == pem.decode().rstrip("\n")


def test_without_a_secret_no_folder_is_read(tmp_path: Path) -> None:
    assert secret_options(kafka(None), {OPTIONS_VARIABLE: str(tmp_path / "nowhere")}) == {}
    assert secret_options(None, {}) == {}


def test_single_keys_of_secrets_are_read_from_the_same_folder(tmp_path: Path) -> None:
    reference = {"secretKeyRef": {"name": "user", "key": "user.key"}}
    document = {
        "bootstrapServers": "kafka:9092",
        "topics": ["orders"],
        "optionsFrom": {"kafka.ssl.keystore.key": reference},
    }
    source = KafkaSource.model_validate(document)
    folder = mounted(tmp_path / "s", kafka__ssl__keystore__key=b"key\n")
    assert secret_options(source, {OPTIONS_VARIABLE: str(folder)}) == {"kafka.ssl.keystore.key": "key"}
    with pytest.raises(SpecError, match=rf"optionsFrom: names keys of Secrets, and {OPTIONS_VARIABLE}"):
        secret_options(source, {})


@pytest.mark.parametrize("environment", [{}, {OPTIONS_VARIABLE: ""}])
def test_a_secret_that_is_not_mounted_is_reported_with_what_to_do(environment: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=rf"secretRef: names the Secret kafka-credentials, and {OPTIONS_VARIABLE}"):
        secret_options(kafka(), environment)


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="nowhere: No such file or directory"):
        read_options(tmp_path / "nowhere")


def test_every_wrong_key_is_reported_and_no_value(tmp_path: Path) -> None:
    folder = mounted(
        tmp_path / "s",
        Kafka__Bootstrap__Servers=b"elsewhere",
        subscribe=b"elsewhere",
        kafka__retries=b"\xff\xfe",
        minPartitions=b"a\0b",
    )
    (folder / "kafka.retry.backoff.ms").mkdir()
    (folder / "isolation.level").write_text("elsewhere")
    (folder / ".hidden").write_text("elsewhere")
    with pytest.raises(SpecError) as caught:
        read_options(folder)
    wrong = [problem.wrong for problem in caught.value.problems]
    assert wrong == [
        "has the key '.hidden', which is not a name of an option",
        "has the key 'Kafka.Bootstrap.Servers', which cannot be set here: use bootstrapServers",
        "has the key 'isolation.level', which does nothing without kafka. before it; kafka.isolation.level",
        "has the key 'kafka.retries', which has a value that is not UTF-8 text",
        "has the key 'kafka.retry.backoff.ms', which is not a file",
        "has the key 'minPartitions', which has a value with a zero byte",
        "has the key 'subscribe', which cannot be set here: use topics",
    ]
    assert "elsewhere" not in str(caught.value)


def test_more_than_a_secret_can_hold_is_not_read(tmp_path: Path) -> None:
    folder = mounted(tmp_path / "s", kafka__retries=b"x" * (SIZE_MAX - 1), minPartitions=b"yy")
    with pytest.raises(
        SpecError, match=f"'minPartitions', which makes all values together larger than {SIZE_MAX} bytes"
    ):
        read_options(folder)


def test_too_many_keys_are_refused(tmp_path: Path) -> None:
    folder = mounted(tmp_path / "s", **{f"o{number}": b"v" for number in range(COUNT_MAX + 1)})
    with pytest.raises(SpecError, match=f"at most {COUNT_MAX}"):
        read_options(folder)
