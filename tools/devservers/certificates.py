"""Certificates for servers that ask their clients for one: an authority that lives as long as a test."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devservers.process import ServerError

_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and its certificate, as PEM."""

    key: str
    certificate: str


class Authority:
    """Signs certificates. Its files are in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if not self.file.exists():
            _openssl("req", "-x509", *_NEW_KEY, "-subj", "/CN=authority", "-keyout", self._key, "-out", self.file)

    @property
    def file(self) -> Path:
        """The authority's own certificate."""
        return self._folder / "ca.crt"

    @property
    def _key(self) -> Path:
        return self._folder / "ca.key"

    def issue(self, name: str, ip: str | None = None) -> Identity:
        """A new key, and a certificate for a client, or for a server at this address."""
        key, certificate = self._folder / f"{name}.key", self._folder / f"{name}.crt"
        signed: list[str | Path] = [
            "-CA",
            self.file,
            "-CAkey",
            self._key,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]
        address = [] if ip is None else ["-addext", f"subjectAltName=IP:{ip}"]
        _openssl(
            "req", "-x509", *_NEW_KEY, *signed, *address, "-subj", f"/CN={name}", "-keyout", key, "-out", certificate
        )
        return Identity(key.read_text(), certificate.read_text())


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerError(f"openssl {arguments[0]} failed: {done.stderr}")
