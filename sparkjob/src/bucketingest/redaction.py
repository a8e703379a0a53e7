"""Removes secrets from what leaves the process: messages repeat URLs, options and servers' answers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

HIDDEN: Final = "***"
_LENGTH_MIN: Final = 6
"""Shorter values are left alone: they would be found in every other word."""

_SECRET_NAME: Final = re.compile(
    r"secret|passw|pwd|token|credential|access.?key|account.?key|api.?key|private.?key|jaas|sas.?key|truststore.key",
    re.IGNORECASE,
)
_PLACE_NAME: Final = re.compile(r"^(OLD)?PWD$|_(FILE|PATH|DIR)$")
"""Environment variables that name a place: the working directory, the file that a token is in."""
_OPEN_NAME: Final = re.compile(r"security\.protocol|sasl\.mechanism|(?:store|ssl)\.(?:type|protocol)", re.IGNORECASE)
"""Options whose values are a few known words, which say much about an error."""
_PART_MIN: Final = 16
"""Characters from which a line of a longer secret, as a key in PEM, counts as one by itself."""
_NAME: Final = (
    r"[\w.\-]*(?:secret(?!ref)|passw(?:or)?d|pwd|token|access[._-]?key|account[._-]?key|api[._-]?key|signature|credential)"
    r"[\w.\-]*"
)
_EXPLAINED_CODE: Final = (
    r"[\w.\-]*(?:invalid|expired|doesnotmatch|mismatch|required|notfound|missing|malformed|denied|exception|error)"
    r"[\w.\-]*\\?[\"']?\s*:\s*\\?[\"']?[a-z]+(?: [a-z]+)+\b"
)
"""A server's error code and its sentence, as `SignatureDoesNotMatch: The request signature`: no name with a value."""
_QUOTED: Final = r"\\\"(?:(?!\\\").)*\\\"|\"(?:[^\"\\]|\\.)*\"|'[^']*'"

_PATTERNS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    # a whole JAAS configuration, to the semicolon that ends it
    (re.compile(r"(?i)(sasl\.jaas\.config\"?'?\s*[=:]\s*)[^\n;]*;?"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(\w+LoginModule\s+(?:required|requisite|sufficient|optional))\b[^\n;]*;?"), rf"\1 {HIDDEN}"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.\-]*://)[^\s/@\"']+@"), rf"\1{HIDDEN}@"),
    # name=value, name: value, "name": "value"; also query parameters such as X-Amz-Signature
    (
        re.compile(rf"(?i)\b(?!{_EXPLAINED_CODE})({_NAME}\\?[\"']?\s*[=:]\s*)(?:{_QUOTED}|[^\s,;&\"'}})\]]+)"),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)([?&](?:sig|sv|se)=)[^&\s\"']+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[a-z0-9+/=._~\-]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"), HIDDEN),
)


class Redactor:
    """Hides known secrets wherever they are, and what looks like a secret by its name or form."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: one secret may hold another.
        self._secrets = sorted({each for each in secrets if len(each) >= _LENGTH_MIN}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for pattern, replacement in _PATTERNS:
            text = pattern.sub(replacement, text)
        return text


_kept: set[str] = set()


def keep_secret(values: Iterable[str]) -> None:
    """From now on hide these values too, in all output of this process."""
    _kept.update(values)


def redacted(text: str) -> str:
    """The text without secrets: those of the environment, those passed to `keep_secret`, and what looks like one."""
    return Redactor(secrets_in(os.environ) | _kept)(text)


def without_secrets(value: Any, redact: Callable[[str], str]) -> Any:
    """The same of kinds that JSON has, without secrets: in texts by their form, in mappings by their names too."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(name): _member(str(name), each, redact) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(each, redact) for each in value]
    return redact(str(value))


def _member(name: str, value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str) and value and secrets_in({name: value}):
        return HIDDEN
    return without_secrets(value, redact)


def secrets_in(*sources: Mapping[str, str]) -> set[str]:
    """Values whose names say that they are secret, of an environment or of a source's options. Pure.

    The value of a JAAS configuration counts as a whole, and each quoted part of it too.
    """
    found: set[str] = set()
    for source in sources:
        for name, value in source.items():
            if _SECRET_NAME.search(name) and not _PLACE_NAME.search(name):
                found.add(value)
                if "jaas" in name.lower():
                    found.update(re.findall(r"password\s*=\s*[\"']([^\"']+)", value))
    return found


def all_secret(options: Mapping[str, str]) -> set[str]:
    """Values of options that come from a Secret: secret whatever their names are, as a whole and in parts. Pure.

    Parts are texts in quotes, as in a JAAS configuration, and the lines of a longer text, as of a key.
    """
    found: set[str] = set()
    for name, value in options.items():
        if _OPEN_NAME.search(name):
            continue
        found.add(value)
        found.update(re.findall(r"=\s*\"((?:[^\"\\]|\\.)+)\"", value), re.findall(r"=\s*'([^']+)'", value))
        lines = [line.strip() for line in value.splitlines()]
        found.update(line for line in lines if len(line) >= _PART_MIN and not line.startswith("-----"))
    return found
