"""The small objects of the state: JSON with kind, version, table and checksum, so that damage is found and named."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any, Final

import pyarrow as pa

from bucketingest.index.errors import StateDamaged, StateForeign, StateTooNew

VERSION: Final = 2
"""The newest that can be read."""
CONTENT_BYTES_MAX: Final = 512 * 1024**2
"""Bytes of the JSON: more than that is not written, and taken for damage."""
_MAGIC: Final = b"bkstatej"
_HEAD: Final = struct.Struct("<8sII16sQ8s")
"""Magic, version, 0, table id, bytes of the JSON, kind."""
_DIGEST_BYTES: Final = 32


def sealed(kind: str, content: Any, table_id: bytes, *, version: int = 1) -> bytes:
    """The object's bytes: head, compressed JSON, SHA-256 of both. Equal contents have equal bytes.

    `version`: 2 if releases that read only 1 would misunderstand it.
    """
    text = json.dumps(content, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode()
    if len(text) > CONTENT_BYTES_MAX:
        raise ValueError(f"a {kind} of {len(text)} bytes is over the limit of {CONTENT_BYTES_MAX}")
    head = _HEAD.pack(_MAGIC, version, 0, table_id, len(text), kind.encode())
    body = head + pa.Codec("zstd", 3).compress(text, asbytes=True)
    return body + hashlib.sha256(body).digest()


def unsealed(kind: str, data: bytes, table_id: bytes, *, source: str) -> Any:
    """The content of such an object. `source` names it in messages. Raises StateDamaged, StateForeign, StateTooNew."""
    if len(data) < _HEAD.size + _DIGEST_BYTES:
        raise StateDamaged(f"{source}: it has {len(data)} bytes, less than any {kind}")
    magic, version, _, found_id, length, found_kind = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise StateDamaged(f"{source}: it starts with {magic!r}, not as an object of the state")
    if version > VERSION:
        raise StateTooNew(f"{source}: it has version {version}; this bucketingest reads versions up to {VERSION}")
    body = data[:-_DIGEST_BYTES]
    if hashlib.sha256(body).digest() != data[-_DIGEST_BYTES:]:
        raise StateDamaged(f"{source}: its content does not have the SHA-256 at its end")
    if found_kind.rstrip(b"\0") != kind.encode():
        raise StateDamaged(f"{source}: it is a {found_kind.rstrip(bytes(1)).decode(errors='replace')}, not a {kind}")
    if found_id != table_id:
        raise StateForeign(f"{source}: it belongs to table {found_id.hex()}, not to table {table_id.hex()}")
    if length > CONTENT_BYTES_MAX:
        raise StateDamaged(f"{source}: it says that it has {length} bytes; the limit is {CONTENT_BYTES_MAX}")
    return json.loads(pa.Codec("zstd").decompress(body[_HEAD.size :], length, asbytes=True))
