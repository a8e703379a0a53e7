"""Turns what obstore raises into this layer's errors, keeping the store's reason and dropping everything secret."""

from __future__ import annotations

import re
from collections.abc import Iterable

from obstore import exceptions as obstore_errors

from bucketingest.storage.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidLocation,
    NotFound,
    StorageError,
    StorageUnavailable,
)

_REASON_LENGTH_MAX = 300  # characters
_HIDDEN = "***"
_SECRET_LENGTH_MIN = 4
"""Shorter values are not hidden: they would blank out ordinary words."""

_XML_CODE = re.compile(r"<Code>([^<]*)</Code>")
_XML_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_SIGNED_PARAMETERS = re.compile(r"([?&](?:X-Amz-[A-Za-z-]+|Signature|sig|AWSAccessKeyId|GoogleAccessId)=)[^&\s\"')]+", re.IGNORECASE)
_DENIED_STATUS = re.compile(r"\b(?:401|403) (?:Unauthorized|Forbidden)\b")
_NO_CREDENTIALS = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "missing credentials", "credential", "169.254.169.254")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


class Secrets:
    """Values that must never reach a message. Its own repr shows none."""

    def __init__(self, values: Iterable[str | None] = ()) -> None:
        self._values = tuple(value for value in values if value is not None and len(value) >= _SECRET_LENGTH_MIN)

    def __repr__(self) -> str:
        return f"Secrets({len(self._values)} hidden)"

    def hide(self, text: str) -> str:
        """The text without the secrets."""
        for value in self._values:
            text = text.replace(value, _HIDDEN)
        return _SIGNED_PARAMETERS.sub(rf"\1{_HIDDEN}", text)


def translated(where: str, what: str, error: Exception, secrets: Secrets) -> StorageError:
    """The storage error for obstore's error: ``where`` is the object, ``what`` the call. Pure."""
    if isinstance(error, StorageError):
        return error
    full = str(error)
    reason = secrets.hide(_reason(full))
    start = f"{where}: {what} failed: "
    # A missing bucket arrives as "not found" of the object; nobody would look for the bucket then.
    if any(sign in full for sign in _NO_BUCKET):
        return InvalidLocation(f"{start}the bucket or container does not exist ({reason}); create it or correct the URL")
    if isinstance(error, (FileNotFoundError, obstore_errors.NotFoundError)):
        return NotFound(f"{start}there is no such object")
    if isinstance(error, (obstore_errors.AlreadyExistsError, obstore_errors.PreconditionError)):
        return AlreadyExists(f"{start}the name is taken; somebody else created it first")
    denied = (PermissionError, obstore_errors.PermissionDeniedError, obstore_errors.UnauthenticatedError)
    if isinstance(error, denied) or _DENIED_STATUS.search(full) or any(sign in full for sign in _NO_CREDENTIALS):
        return AccessDenied(f"{start}{reason}; check the credentials and their permissions on this path")
    invalid = (obstore_errors.InvalidPathError, obstore_errors.UnknownConfigurationKeyError, ValueError)
    if isinstance(error, invalid):
        return InvalidLocation(f"{start}{reason}; correct the URL, the options or the path")
    if isinstance(error, (obstore_errors.NotSupportedError, NotImplementedError)):
        return InvalidLocation(f"{start}the store does not support this call ({reason}); use another store")
    return StorageUnavailable(f"{start}{reason}; check that the store is reachable, then try again")


def _reason(text: str) -> str:
    """The store's reason in one line: an error document's code and message, else the first line."""
    code, message = _XML_CODE.search(text), _XML_MESSAGE.search(text)
    if code:
        return f"{code[1]}: {message[1]}" if message and message[1] else code[1]
    first = text.split("\n", 1)[0].strip()
    return first if len(first) <= _REASON_LENGTH_MAX else first[:_REASON_LENGTH_MAX] + " ..."
