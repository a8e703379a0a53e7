"""Asks a schema registry over Confluent's HTTP API. One request is one answer, or an error that says what came instead.

Everything is limited: time, bytes, references. Redirects are not followed, so that credentials go nowhere else. Only an
answer that a registry alone gives, in its own words, says that something does not exist.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from bucketingest.registry.credentials import Credentials
from bucketingest.registry.errors import RegistryDenied, RegistryUnavailable

BYTES_MAX: Final = 4 * 1024**2
"""Of an answer: a schema with what it quotes."""
REFERENCES_MAX: Final = 100
TIMEOUT_SECONDS: Final = 10.0
_CHUNK: Final = 64 * 1024
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_SCHEMA_UNKNOWN: Final = frozenset([40403])
_SUBJECT_UNKNOWN: Final = frozenset([40401, 40402])
IsLate = Callable[[], bool]
"""Whether the time for an answer is over."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as it is in the registry."""

    text: str
    kind: str
    """AVRO, JSON or PROTOBUF."""
    references: tuple[str, ...] = ()
    """Texts of the schemas that it names, those before that they name themselves."""
    names: tuple[str, ...] = ()
    """Under which each of them is named."""


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """A version of a subject, and its schema."""

    number: int
    schema_id: int
    schema: RegisteredSchema


class RegistryClient:
    """A registry. `credentials` are asked for at each request: a Secret may change. `now`: seconds of a clock that is
    not set.
    """

    def __init__(
        self,
        url: str,
        credentials: Callable[[], Credentials],
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._now = now
        self._credentials = credentials
        self._timeout = timeout_seconds

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """The schema with the id; None if the registry says that it has none. Raises RegistryError."""
        answer = self._get(f"/schemas/ids/{schema_id}", _SCHEMA_UNKNOWN)
        return None if answer is None else self._read(answer)

    def version(self, subject: str, number: int | None = None) -> SubjectVersion | None:
        """A version of the subject, None for the newest; None if there is none. Raises RegistryError."""
        wanted = "latest" if number is None else number
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/{wanted}", _SUBJECT_UNKNOWN)
        if answer is None:
            return None
        found, schema_id = answer.get("version"), answer.get("id")
        if not isinstance(found, int) or not isinstance(schema_id, int):
            raise RegistryUnavailable(f"{self.url} answers without the id of version {wanted} of {subject}")
        return SubjectVersion(found, schema_id, self._read(answer))

    def check(self) -> None:
        """Raises RegistryError if the registry does not answer."""
        self._get("/schemas/ids/1", _SCHEMA_UNKNOWN)

    def _read(self, answer: dict[str, Any]) -> RegisteredSchema:
        found: dict[tuple[str, int], tuple[str, str]] = {}
        self._follow(answer, found, 0)
        names, texts = zip(*found.values(), strict=True) if found else ((), ())
        return RegisteredSchema(_text_of(answer, self.url), str(answer.get("schemaType") or "AVRO"), texts, names)

    def _follow(self, answer: dict[str, Any], texts: dict[tuple[str, int], tuple[str, str]], depth: int) -> None:
        for each in answer.get("references") or ():
            try:
                place = (str(each["subject"]), int(each["version"]))
            except (KeyError, TypeError, ValueError) as error:
                raise RegistryUnavailable(f"{self.url} answers with a reference that names no version") from error
            if place in texts:
                continue
            if len(texts) >= REFERENCES_MAX or depth >= REFERENCES_MAX:
                raise RegistryUnavailable(f"{self.url} has a schema with more than {REFERENCES_MAX} references")
            found = self._get(f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}", frozenset())
            assert found is not None, "every absence is an error here"
            self._follow(found, texts, depth + 1)
            texts[place] = str(each.get("name") or ""), _text_of(found, self.url)

    def _get(self, path: str, absent: frozenset[int]) -> dict[str, Any] | None:
        """The answer; None if its error code is one of `absent`."""
        credentials = self._credentials()
        headers = {"Accept": _ACCEPT, "User-Agent": "bucketingest"}
        if credentials.authorization is not None:
            headers["Authorization"] = credentials.authorization
        until = self._now() + self._timeout

        def is_late() -> bool:
            return self._now() > until

        request = Request(self.url + path, headers=headers)  # noqa: S310 - the spec allows http and https only
        try:
            with self._opener(credentials).open(request, timeout=self._timeout) as answer:
                return self._object(_body(answer, is_late), path)
        except HTTPError as error:
            with error:
                self._refuse_failed(error, path, absent, is_late)
            return None
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise RegistryUnavailable(f"the schema registry {self.url} does not answer: {why}") from error

    def _opener(self, credentials: Credentials) -> OpenerDirector:
        if self.url.startswith("https:"):
            return build_opener(_NoRedirects, HTTPSHandler(context=credentials.context()))
        return build_opener(_NoRedirects)

    def _refuse_failed(self, error: HTTPError, path: str, absent: frozenset[int], is_late: IsLate) -> None:
        """Raises RegistryError for every answer but that something is absent."""
        if error.code in {401, 403}:
            raise RegistryDenied(
                f"the schema registry {self.url} denies access ({error.code}): check spec.format.registry.secretRef"
            ) from error
        document: dict[str, Any] = {}
        with suppress(OSError, HTTPException, RegistryUnavailable):
            document = self._object(_body(error, is_late), path)
        if error.code == 404 and document.get("error_code") in absent:
            return
        hint = ": put the address itself into spec.format.registry.url" if 300 <= error.code < 400 else ""
        raise RegistryUnavailable(
            f"the schema registry {self.url} answers {path} with {error.code}, as none does that works{hint}"
        ) from error

    def _object(self, data: bytes, path: str) -> dict[str, Any]:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise RegistryUnavailable(
                f"{self.url} answers {path} with something other than a registry does: no JSON object"
            )
        return found


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """None: the redirect is the answer."""


def _body(answer: Any, is_late: IsLate) -> bytes:
    """What is answered, within the limits of bytes and time."""
    parts: list[bytes] = []
    size = 0
    while part := answer.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > BYTES_MAX:
            raise RegistryUnavailable(f"{answer.url} answers with more than {BYTES_MAX} bytes")
        if is_late():
            raise TimeoutError("it is too slow")
    return b"".join(parts)


def _text_of(answer: dict[str, Any], url: str) -> str:
    text = answer.get("schema")
    if not isinstance(text, str):
        raise RegistryUnavailable(f"{url} answers without a schema")
    return text
