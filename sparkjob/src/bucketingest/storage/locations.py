"""Where an object store's root is and how to connect to it: parsed once, picklable, and silent about its secrets."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from bucketingest.storage import limits
from bucketingest.storage.errors import InvalidLocation
from bucketingest.storage.limits import Use
from bucketingest.storage.remote.failures import OBSTORE_ERRORS, Secrets, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from obstore.store import ObjectStore

Options = Mapping[str, str]

_SECRET_OPTION_WORDS = ("key", "secret", "token", "password", "sas")
_SECRET_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)


@dataclass(frozen=True, slots=True)
class CloudLocation:
    """A bucket or container of a cloud store, with a root inside it."""

    scheme: str
    url: str
    """The root as the user wrote it, without a trailing slash."""
    bucket: str
    prefix: str
    """The root's path inside the bucket, "" for the bucket itself."""
    options: Options = field(repr=False)

    @property
    def object_bytes_max(self) -> int | None:
        """The most bytes that one atomic PUT takes; None without limit."""
        return _PUT_BYTES_MAX[self.scheme]

    @property
    def secrets(self) -> Secrets:
        """What messages must hide: the secrets among the options and in the environment."""
        given = [value for name, value in self.options.items() if any(word in name for word in _SECRET_OPTION_WORDS)]
        return Secrets([*given, *(os.environ.get(name) for name in _SECRET_VARIABLES)])

    def connect(self, use: Use) -> ObjectStore:
        """A client of the bucket. Settings that the options lack come from the usual environment variables. Raises
        InvalidLocation, AccessDenied.
        """
        try:
            return _connect(self, use)
        except OBSTORE_ERRORS as error:
            raise translated(self.url, "open", error, self.secrets) from None


@dataclass(frozen=True, slots=True)
class MemoryLocation:
    """A store in the memory of this process, shared by all who use its name."""

    name: str
    prefix: str
    process: int

    @property
    def url(self) -> str:
        """``memory://`` and the name."""
        return f"memory://{self.name}/{self.prefix}".rstrip("/")

    @property
    def object_bytes_max(self) -> int | None:
        """None: memory has no limit of its own."""
        return None

    @property
    def secrets(self) -> Secrets:
        """Nothing is secret."""
        return Secrets()

    def connect(self, use: Use) -> ObjectStore:
        """The process's store of this name, whatever the use. Raises InvalidLocation in any other process."""
        del use
        if os.getpid() != self.process:
            # A fresh empty store here would look like an empty table.
            raise InvalidLocation(
                f"{self.url}: a memory storage lives in one process; give the table a path that all processes reach"
            )
        with _memory_lock:
            return _memory_stores.setdefault(self.name, MemoryStore())


Location: TypeAlias = CloudLocation | MemoryLocation

_memory_stores: dict[str, MemoryStore] = {}
_memory_lock = threading.Lock()


def settings_of(location: CloudLocation) -> dict[str, str]:
    """What the options say and the environment does not, in the words of the Rust crate object_store: for readers that
    connect by themselves. With secrets.
    """
    config, http = _CONFIGS[location.scheme](location)
    return config | {"allow_http": str(http).lower()}


def _s3_config(location: CloudLocation) -> tuple[dict[str, str], bool]:
    """Settings of obstore, and whether plain HTTP may be used."""
    config = {name.removeprefix("aws_"): value for name, value in location.options.items()}
    path_style = config.pop("path_style", None)
    if path_style is not None:
        config["virtual_hosted_style_request"] = "false" if _is_true(path_style) else "true"
    endpoint = (
        config.get("endpoint")
        or config.get("endpoint_url")
        or _variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    )
    if endpoint:
        config.pop("endpoint_url", None)
        config["endpoint"] = endpoint
    if "region" not in config and not _variable("AWS_REGION", "AWS_DEFAULT_REGION"):
        config["region"] = "us-east-1"  # S3 clones take any; a real bucket elsewhere answers with a clear redirect.
    return config, _http_allowed(config, endpoint, "AWS_ALLOW_HTTP")


def _gcs_config(location: CloudLocation) -> tuple[dict[str, str], bool]:
    config = dict(location.options)
    return config, _http_allowed(config, config.get("base_url"), "GOOGLE_ALLOW_HTTP")


def _azure_config(location: CloudLocation) -> tuple[dict[str, str], bool]:
    config = {name.removeprefix("azure_storage_"): value for name, value in location.options.items()}
    return config, _http_allowed(config, config.get("endpoint"), "AZURE_ALLOW_HTTP")


def _connect(location: CloudLocation, use: Use) -> ObjectStore:
    config, http = _CONFIGS[location.scheme](location)
    built: ObjectStore = _STORES[location.scheme](
        location.bucket,
        config=config,
        client_options=limits.client_options(use, allow_http=http),
        retry_config=limits.retry_options(),
    )
    return built


def _http_allowed(config: dict[str, str], endpoint: str | None, variable: str) -> bool:
    """Whether plain HTTP may be used: asked for, or the endpoint says so itself. Removes the option from ``config``."""
    asked = config.pop("allow_http", None) or os.environ.get(variable)
    return _is_true(asked) if asked else bool(endpoint and endpoint.startswith("http://"))


def _variable(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("true", "1", "yes", "on")


_CONFIGS: dict[str, Callable[[CloudLocation], tuple[dict[str, str], bool]]] = {
    "s3": _s3_config,
    "gs": _gcs_config,
    "az": _azure_config,
}
_STORES: dict[str, Callable[..., Any]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_PUT_BYTES_MAX = {"s3": limits.S3_PUT_BYTES_MAX, "gs": limits.GCS_PUT_BYTES_MAX, "az": limits.AZURE_PUT_BYTES_MAX}
