"""The registry's Secret is a folder of files: how the job identifies itself, and which servers it trusts."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from bucketingest.registry.credentials import REGISTRY_VARIABLE, Credentials, registry_credentials
from bucketingest.spec.errors import SpecError
from bucketingest.spec.formats.format import Registry

REGISTRY = Registry.model_validate({"url": "https://registry:8081", "secretRef": {"name": "access"}})


def credentials(folder: Path, **keys: str) -> Credentials:
    for name, value in keys.items():
        (folder / name.replace("_", ".")).write_text(value)
    return registry_credentials(REGISTRY, {REGISTRY_VARIABLE: str(folder)})


def test_a_name_and_a_password_are_basic_authorization(tmp_path: Path) -> None:
    found = credentials(tmp_path, username="me", password="pass:wörd\n")
    assert found.authorization is not None
    kind, _, encoded = found.authorization.partition(" ")
    assert (kind, base64.b64decode(encoded).decode()) == ("Basic", "me:pass:wörd")
    assert found.secrets == {"pass:wörd", encoded}
    assert "wörd" not in repr(found)
    assert encoded not in repr(found)


def test_a_token_is_a_bearer_token(tmp_path: Path) -> None:
    found = credentials(tmp_path, token="abc.def\n")
    assert (found.authorization, set(found.secrets)) == ("Bearer abc.def", {"abc.def"})


def test_without_a_secret_nothing_is_shown() -> None:
    open_registry = Registry.model_validate({"url": "http://registry:8081"})
    assert registry_credentials(open_registry, {}) == Credentials()


def test_certificates_of_the_secret_are_trusted_and_no_others(tmp_path: Path) -> None:
    store = ssl.create_default_context()
    if not store.get_ca_certs(binary_form=True):
        pytest.skip("this machine trusts no certificate that could be used here")
    pem = ssl.DER_cert_to_PEM_cert(store.get_ca_certs(binary_form=True)[0])
    found = credentials(tmp_path, ca_crt=pem)
    assert (found.authorization, len(found.context().get_ca_certs())) == (None, 1)
    assert found.context().verify_mode is ssl.CERT_REQUIRED
    assert found.context().check_hostname


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"username": "me"}, "has username in"),
        ({"username": "me", "password": "topsecret", "token": "topsecret"}, "has username, password, token in"),
        ({"token": ""}, "has a key token in .* that is empty"),
        ({"token": "topsecret\nX-Header: 1"}, "has a key token in .* not one line"),
        ({"token": "topsecretß"}, "has a key token in .* not one line of plain text"),
        ({"ca_crt": "topsecret"}, "has a key ca.crt in .* that has no certificate"),
    ],
)
def test_what_cannot_be_used_is_refused_and_no_value_is_shown(tmp_path: Path, keys: dict[str, str], said: str) -> None:
    with pytest.raises(SpecError, match=rf"spec.format.registry.secretRef: {said}") as refused:
        credentials(tmp_path, **keys)
    assert "topsecret" not in str(refused.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="not UTF-8"):
        credentials(tmp_path)


def test_a_named_secret_needs_its_folder() -> None:
    with pytest.raises(SpecError, match=rf"names the Secret access, and {REGISTRY_VARIABLE} names no folder"):
        registry_credentials(REGISTRY, {})
