"""The one way to get a storage: from a URL and options, whatever is behind them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from bucketingest.storage.errors import InvalidLocation
from bucketingest.storage.interface import Storage
from bucketingest.storage.limits import FILE_NAME_BYTES_MAX, FILE_PATH_BYTES_MAX, KEY_BYTES_MAX, PathRoom
from bucketingest.storage.local.storage import LocalStorage
from bucketingest.storage.locations import CloudLocation, MemoryLocation, settings_of
from bucketingest.storage.paths import path_problem
from bucketingest.storage.remote.object_storage import ObjectStorage

SUPPORTED = "a local path, file://, memory://, s3://, s3a://, gs://, abfss://, abfs:// or az://"

_KINDS = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
_AZURE_HOST_MARK = ".dfs."
_ALLOWED_LOCAL_OPTIONS = {"durable"}


def open_storage(url: str, options: Mapping[str, str] | None = None) -> Storage:
    """The storage whose root is ``url``; nothing is contacted yet and nothing has to exist.

    Options (names in any case; what they lack comes from the usual ``AWS_*``, ``GOOGLE_*``, ``AZURE_*`` environment
    variables, such as ``AWS_ENDPOINT_URL``):

    - s3, s3a: ``endpoint``, ``region``, ``access_key_id``, ``secret_access_key``, ``session_token``, ``path_style``,
      ``allow_http`` (an ``http://`` endpoint implies it), and obstore's other S3 settings.
    - gs: obstore's GCS settings (``service_account``, ``application_credentials``, ...).
    - abfss, abfs, az: obstore's Azure settings (``account_name``, ``account_key``, ``sas_key``, ...). The account may
      be in the URL: ``abfss://container@account.dfs.core.windows.net/path``.
    - local: ``durable`` = ``false`` skips the flushes to disk (scratch data and tests only).

    Paths inside URLs are taken as they are, never URL-decoded. Raises InvalidLocation.
    """
    given = {name.lower(): value for name, value in (options or {}).items()}
    scheme, separator, rest = url.partition("://")
    if not separator:
        local = url.removeprefix("file:")  # Hudi and Hadoop write file:/path.
        return _local(local, given)
    scheme = scheme.lower()
    if scheme == "file":
        if not rest.startswith("/"):
            raise InvalidLocation(
                f"{url}: a file URL has three slashes before an absolute path, as in file:///data/orders"
            )
        return _local(rest, given)
    if scheme == "memory":
        name, prefix = _bucket_and_prefix(url, rest)
        return ObjectStorage(MemoryLocation(name, prefix, os.getpid()))
    if scheme in _KINDS:
        return ObjectStorage(_cloud(scheme, url, rest, given))
    raise InvalidLocation(f"{url}: cannot open {scheme}:// storages; use {SUPPORTED}")


def object_store_settings(url: str, options: Mapping[str, str] | None = None) -> tuple[str, dict[str, str]]:
    """The same storage for readers that connect by themselves with the Rust crate object_store, as hudi-rs: URL and
    settings, with secrets. What these lack they take from the environment, as `open_storage` does. Raises as it does.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in _KINDS:
        return open_storage(url, options).url, {}
    location = _cloud(scheme.lower(), url, rest, {name.lower(): value for name, value in (options or {}).items()})
    return location.url, settings_of(location)


def path_room(url: str) -> PathRoom:
    """How long paths below this root may be. Pure. Raises InvalidLocation for other URLs."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() == "file":
        root = _local(rest if separator else url.removeprefix("file:"), {}).url
        return PathRoom(FILE_PATH_BYTES_MAX - len(os.fsencode(root)) - 1, FILE_NAME_BYTES_MAX)
    if scheme.lower() not in _KINDS:
        return PathRoom()
    _, prefix = _bucket_and_prefix(url, rest)
    return PathRoom(KEY_BYTES_MAX - len(f"{prefix}/".encode() if prefix else b""))


def _local(path: str, options: Mapping[str, str]) -> LocalStorage:
    if not path:
        raise InvalidLocation(f"the URL of a storage is empty; use {SUPPORTED}")
    unknown = sorted(set(options) - _ALLOWED_LOCAL_OPTIONS)
    if unknown:
        raise InvalidLocation(f"{path}: a local storage has no option {', '.join(unknown)}; it has only 'durable'")
    durable = options.get("durable", "true").lower() != "false"
    return LocalStorage(os.path.abspath(path), durable=durable)  # noqa: PTH100 - resolve() would follow links


def _cloud(scheme: str, url: str, rest: str, options: dict[str, str]) -> CloudLocation:
    bucket, prefix = _bucket_and_prefix(url, rest)
    kind = _KINDS[scheme]
    if kind == "az" and "@" in bucket:
        bucket, host = bucket.split("@", 1)
        account, mark, _ = host.partition(_AZURE_HOST_MARK)
        if not bucket or not account or not mark:
            raise InvalidLocation(
                f"{url}: write the container and account as abfss://container@account.dfs.core.windows.net/path"
            )
        options.setdefault("account_name", account)
    elif "@" in bucket:
        # Never echo the URL: the part before an @ is a key.
        raise InvalidLocation(
            f"{scheme}://***: credentials in a URL are not supported; use options or environment variables"
        )
    return CloudLocation(kind, url.rstrip("/"), bucket, prefix, options)


def _bucket_and_prefix(url: str, rest: str) -> tuple[str, str]:
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.strip("/")
    if not bucket:
        raise InvalidLocation(f"{url}: the URL names no bucket, container or memory store")
    problem = path_problem(prefix) if prefix else None
    if problem is not None:
        raise InvalidLocation(f"{url}: cannot use {prefix!r} as the root's path: {problem}")
    return bucket, prefix
