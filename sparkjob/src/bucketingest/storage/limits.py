"""Every timeout, retry and size limit towards an object store, in one place, so that no call hangs for ever."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

CONNECT_TIMEOUT = timedelta(seconds=5)
QUICK_TIMEOUT = timedelta(seconds=30)
"""One request that moves little: a head, a listing page, a deletion, a small object."""
TRANSFER_TIMEOUT = timedelta(minutes=10)
"""One request that moves a large object; 5 GiB in it need 9 MB/s."""
READ_STALL_TIMEOUT = timedelta(seconds=30)
"""Silence of a store in the middle of a download."""

QUICK_BYTES_MAX = 8 * 1024 * 1024
"""Uploads up to this size count as quick: 30 s for them mean 0.3 MB/s."""

RETRIES_MAX = 6
RETRY_BACKOFF_FIRST = timedelta(milliseconds=100)
RETRY_BACKOFF_MAX = timedelta(seconds=10)
RETRY_TIME_MAX = timedelta(minutes=2)
"""No further try starts later than this after the first one."""

CREATE_TRIES_MAX = 3
"""Own tries of a create on top of the client's: the client never repeats a conditional PUT after a lost answer."""
CREATE_RETRY_PAUSE_S = 0.2
"""Seconds before the second try; doubled for the third."""

GIB = 1024**3
S3_PUT_BYTES_MAX = 5 * GIB
"""S3's limit of one PUT (a larger object needs a multipart upload, on which obstore has no condition)."""
AZURE_PUT_BYTES_MAX = 5000 * 1024 * 1024
"""Azure's limit of one Put Blob."""
GCS_PUT_BYTES_MAX = 5 * 1024 * GIB
"""Google Cloud Storage's limit of any object."""

KEY_BYTES_MAX = 1024
"""The longest key of S3 and of Google Cloud Storage; Azure's is as many characters."""
FILE_PATH_BYTES_MAX = 4095
"""Linux's longest path."""
FILE_NAME_BYTES_MAX = 255
"""The longest name of a file or directory, of nearly every file system."""


@dataclass(frozen=True, slots=True)
class PathRoom:
    """How long paths below a root may be, in bytes of UTF-8; None: no limit."""

    path: int | None = None
    """A path relative to the root."""
    level: int | None = None
    """One name in it."""


UNBOUNDED = PathRoom()


class Use(enum.Enum):
    """What a client is for, since a good timeout depends on it."""

    QUICK = "quick"
    READ = "read"
    UPLOAD = "upload"


def client_options(use: Use, *, allow_http: bool) -> ClientConfig:
    """The HTTP client's settings for one use."""
    options: ClientConfig = {
        "connect_timeout": CONNECT_TIMEOUT,
        "timeout": QUICK_TIMEOUT if use is Use.QUICK else TRANSFER_TIMEOUT,
        "allow_http": allow_http,
    }
    if use is Use.READ:
        options["read_timeout"] = READ_STALL_TIMEOUT  # Not for uploads: there it would count while we send.
    return options


def retry_options() -> RetryConfig:
    """How a failed request is repeated: exponential backoff with jitter, bounded in number and time."""
    return {
        "max_retries": RETRIES_MAX,
        "retry_timeout": RETRY_TIME_MAX,
        "backoff": {"init_backoff": RETRY_BACKOFF_FIRST, "max_backoff": RETRY_BACKOFF_MAX, "base": 2},
    }
