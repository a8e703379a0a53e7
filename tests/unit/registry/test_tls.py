"""A registry with a certificate of its own is trusted by the certificates in its Secret, and by nothing else."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bucketingest.registry.client import RegisteredSchema, RegistryClient
from bucketingest.registry.credentials import Credentials
from bucketingest.registry.errors import RegistryUnavailable
from support.registry.http_registry import HttpRegistry, http_registry


def certificate(folder: Path, address: str) -> tuple[Path, Path]:
    made, key = folder / f"{address}.crt", folder / f"{address}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=registry", "-addext", f"subjectAltName=IP:{address}", "-days", "2"]
    subprocess.run([*command, *names, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True)
    return made, key


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[HttpRegistry]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path, "127.0.0.1"))
    with http_registry(context) as found:
        found.register("a", '"int"')
        yield found


def test_the_certificates_of_the_secret_are_trusted(registry: HttpRegistry, tmp_path: Path) -> None:
    trusted = Credentials("Bearer secret-token", (tmp_path / "127.0.0.1.crt").read_text())
    assert RegistryClient(registry.url, lambda: trusted).schema(1) == RegisteredSchema('"int"', "AVRO")


@pytest.mark.parametrize("another", [True, False])
def test_a_certificate_of_nobody_that_is_trusted_sees_no_credentials(
    registry: HttpRegistry, tmp_path: Path, *, another: bool
) -> None:
    trusted = certificate(tmp_path, "127.0.0.2")[0].read_text() if another else None
    asked = RegistryClient(registry.url, lambda: Credentials("Bearer secret-token", trusted))
    with pytest.raises(RegistryUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        asked.schema(1)
    assert registry.requests == []
