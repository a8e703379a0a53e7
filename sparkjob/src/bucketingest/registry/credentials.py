"""What the registry asks for, from its Secret, which Kubernetes mounts into the driver's pod as a folder of files."""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.formats.format import Registry

REGISTRY_VARIABLE: Final = "BUCKETINGEST_REGISTRY_SECRET"
"""Environment variable: a folder with a file for each key of the Secret."""
_FIELD: Final = "spec.format.registry.secretRef"
_SIZE_MAX: Final = 1024 * 1024
_KEYS: Final = "username and password, or token; and ca.crt"


@dataclass(frozen=True, slots=True)
class Credentials:
    """How the job identifies itself, and which server it trusts."""

    authorization: str | None = field(default=None, repr=False)
    """Value of the header."""
    certificates: str | None = field(default=None, repr=False)
    """Certificates to trust, in PEM; None: those of the system."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Texts that no output may have."""

    def context(self) -> ssl.SSLContext:
        """Checks the registry's certificate and name. Raises ssl.SSLError for text that is no certificate."""
        return ssl.create_default_context(cadata=self.certificates)


def registry_credentials(registry: Registry, environment: Mapping[str, str] = os.environ) -> Credentials:
    """The credentials in the folder that the environment names; none if the registry has no Secret. No message repeats
    a value. Raises SpecError.
    """
    if registry.secret_ref is None:
        return Credentials()
    folder = environment.get(REGISTRY_VARIABLE)
    if not folder:
        wrong = f"names the Secret {registry.secret_ref.name}, and {REGISTRY_VARIABLE} names no folder that holds it"
        raise SpecError([Problem(_FIELD, wrong, f"a folder with files {_KEYS}")])
    found = {name: _text(Path(folder), name) for name in ("username", "password", "token", "ca.crt")}
    user, password, token = found["username"], found["password"], found["token"]
    if (user is None) != (password is None) or (user is not None and token is not None):
        given = ", ".join(name for name in ("username", "password", "token") if found[name] is not None)
        raise SpecError([Problem(_FIELD, f"has {given} in {folder}", _KEYS)])
    if found["ca.crt"] is not None:
        _check_certificates(found["ca.crt"], folder)
    if token is not None:
        return Credentials(f"Bearer {token}", found["ca.crt"], frozenset([token]))
    if user is None or password is None:
        return Credentials(None, found["ca.crt"])
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    return Credentials(f"Basic {encoded}", found["ca.crt"], frozenset([password, encoded]))


def _text(folder: Path, name: str) -> str | None:
    try:
        with (folder / name).open("rb") as stream:
            data = stream.read(_SIZE_MAX + 1)
        text = data.decode().rstrip("\r\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SpecError([Problem(_FIELD, f"has a key {name} that cannot be read in {folder}: {why}")]) from error
    one_line = name == "ca.crt" or (text.isprintable() and (name != "token" or text.isascii()))
    if len(data) > _SIZE_MAX or not text or not one_line:
        wrong = f"has a key {name} in {folder} that is empty, too long or not one line of plain text"
        raise SpecError([Problem(_FIELD, wrong)])
    return text


def _check_certificates(text: str, folder: str) -> None:
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise SpecError([Problem(_FIELD, f"has a key ca.crt in {folder} that has no certificate in PEM")]) from error
