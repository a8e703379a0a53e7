"""Turns what obstore raises into this layer's errors, keeping the store's reason and dropping everything secret."""

from __future__ import annotations

import re
from collections.abc import Iterable

from obstore import exceptions as obstore_errors

from bucketingest.storage.errors import (
    AccessDenied,
    AlreadyExists,
    Changed,
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
_STATUS = re.compile(r"status code: ([1-5][0-9][0-9])\b")
_REFUSED_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_SIGNED_PARAMETERS = re.compile(
    r"([?&](?:X-Amz-[A-Za-z-]+|Signature|sig|AWSAccessKeyId|GoogleAccessId)=)[^&\s\"')]+", re.IGNORECASE
)

_OBJECT_ABSENT_CODES = {None, "NoSuchKey", "NotFound", "BlobNotFound", "PathNotFound"}
_BUCKET_ABSENT_CODES = {"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"}
_DENIED_CODES = {
    "ExpiredToken",
    "InvalidToken",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "XAdminUserNotFound",  # versitygw, with status 404
}
_TRANSIENT_CODES = {"IDPCommunicationError", "RequestTimeout", "SlowDown"}
"""S3 sends RequestTimeout with status 400, and STS what it does not hear from an identity provider."""
_PROVIDERS = (
    "169.254.169.254",
    "169.254.170.2",
    "[fd00:ec2::",
    "metadata.google.internal",
    "/latest/api/token",
    "/latest/meta-data/iam/",
    "token request",
    "//sts.",
    "AssumeRole",
    "//login.microsoftonline.",
    "//oauth2.googleapis.",
    "//iamcredentials.googleapis.",
    "credential provider",
)
"""Addresses, paths and words of services that give a machine its credentials. AWS_METADATA_ENDPOINT moves AWS's."""
_NO_CREDENTIALS = (*_PROVIDERS, "missing credentials")
_DENIED_STATUSES = {401, 403}
_TRANSIENT_STATUSES = {408, 409, 425, 429}
_NOT_IMPLEMENTED_STATUS = 501

OBSTORE_ERRORS = (obstore_errors.BaseError, OSError, ValueError, NotImplementedError)
"""Everything that obstore raises on a failed call. Any other exception is a defect and stays what it is."""

_DENIED_TYPES = (PermissionError, obstore_errors.PermissionDeniedError, obstore_errors.UnauthenticatedError)
_INVALID_TYPES = (obstore_errors.InvalidPathError, obstore_errors.UnknownConfigurationKeyError, ValueError)
_UNSUPPORTED_TYPES = (obstore_errors.NotSupportedError, NotImplementedError)


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
    full = str(error)
    found = _XML_CODE.search(full)
    code = found[1] if found else None
    start = f"{where}: {what} failed: "
    reason = secrets.hide(_reason(full, code))
    if isinstance(error, (obstore_errors.AlreadyExistsError, obstore_errors.PreconditionError)):
        if what == "replace":
            return Changed(f"{start}it is no longer the version that was read; another writer wrote it meanwhile")
        return AlreadyExists(f"{start}the name is taken; another writer created it first")
    refused = _REFUSED_CERTIFICATE.search(full)
    if refused is not None:
        return StorageUnavailable(
            f"{start}the server's certificate is not trusted ({refused[1]}); that of a private authority must be in "
            "the file that SSL_CERT_FILE names"
        )
    # A missing bucket arrives as "not found" of the object, which does not point to the bucket.
    if code in _BUCKET_ABSENT_CODES:
        return InvalidLocation(
            f"{start}the bucket or container does not exist ({reason}); create it or correct the URL"
        )
    if _provider_is_away(full, code):
        # Without such a service, too: a machine that has none and one whose service is down look the same.
        return StorageUnavailable(
            f"{start}{reason}; no credentials in the options or the environment, and the service that gives them to "
            "this machine does not answer: provide credentials, or try again"
        )
    denied = _denial(error, full, code)
    if denied is not None:
        return AccessDenied(f"{start}{reason}; {denied}")
    if _is_absence(error) and code in _OBJECT_ABSENT_CODES and what not in ("create", "put"):
        return NotFound(f"{start}there is no such object")
    if isinstance(error, _UNSUPPORTED_TYPES) or _status(full) == _NOT_IMPLEMENTED_STATUS:
        return InvalidLocation(f"{start}the store does not support this call ({reason}); use another store")
    # Opening contacts nothing: whatever fails then lies in the URL and the options.
    if what == "open" or isinstance(error, _INVALID_TYPES) or _is_absence(error) or _is_final(full, code):
        return InvalidLocation(f"{start}{reason}; correct the URL, the options or the path")
    return StorageUnavailable(f"{start}{reason}; check that the store is reachable, then try again")


def _is_absence(error: Exception) -> bool:
    return isinstance(error, FileNotFoundError)


def _provider_is_away(full: str, code: str | None) -> bool:
    """Whether the service that gives credentials did not answer, or not now."""
    status = _status(full)
    away = status is None or status >= 500 or status in _TRANSIENT_STATUSES or code in _TRANSIENT_CODES
    return away and any(sign in full for sign in _PROVIDERS)


def _denial(error: Exception, full: str, code: str | None) -> str | None:
    """What to do when access was denied, or None when it was not."""
    if any(sign in full for sign in _NO_CREDENTIALS):
        return "no credentials in the options or the environment, and the machine offers none: provide them"
    if isinstance(error, _DENIED_TYPES) or code in _DENIED_CODES or _status(full) in _DENIED_STATUSES:
        return "check the credentials and their permissions on this path"
    return None


def _is_final(full: str, code: str | None) -> bool:
    """Whether the store refused the request itself, so that repeating it cannot help."""
    status = _status(full)
    if code in _TRANSIENT_CODES or status in _TRANSIENT_STATUSES:
        return False
    return "Received redirect" in full or (status is not None and 300 <= status < 500)


def _status(full: str) -> int | None:
    found = _STATUS.search(full)
    return int(found[1]) if found else None


def _reason(full: str, code: str | None) -> str:
    """The store's reason in one line: an error document's code and message, else the first line."""
    if code is not None:
        message = _XML_MESSAGE.search(full)
        return f"{code}: {message[1]}" if message and message[1] else code
    first = full.split("\n", 1)[0].strip()
    return first if len(first) <= _REASON_LENGTH_MAX else first[:_REASON_LENGTH_MAX] + " ..."
