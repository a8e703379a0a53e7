"""Kerberos as a client, by the system's own GSSAPI library (MIT's), which krb5.conf and `kinit` are for.

Called by ctypes: `gssapi` and `krb5` on PyPI have no wheels for Linux, so each image and each laptop would have to
compile them. Other clients of Hive build on `pure-sasl` and `thrift-sasl`, whose last releases are of 2019 and 2021.
Names and numbers are those of RFC 2744 (the C binding), RFC 4752 (SASL) and MIT's gssapi_ext.h (credential stores).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p, string_at
from functools import cache
from typing import Any, Final

from bucketingest.catalog.errors import CatalogUnavailable

_LIBRARY: Final = "libgssapi_krb5.so.2"
_FAILED: Final = 0xFFFF0000
"""The bits of a status that are errors."""
_CONTINUE: Final = 1
_UNSPECIFIED: Final = 13 << 16
"""A status that says nothing; the mechanism's own does."""
_INITIATE: Final = 1
_FLAGS: Final = 2 | 4 | 8 | 16 | 32
"""Mutual authentication, no replay, in sequence, confidential, integral: what the server chooses from."""
_NONE, _INTEGRITY, _PRIVACY = 1, 2, 4
"""RFC 4752's security layers, the cheapest first."""


class _Buffer(Structure):
    """What the library gives."""

    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Bytes(Structure):
    """What it is given: the same in C, and Python keeps the bytes as long as this."""

    _fields_ = (("length", c_size_t), ("value", c_char_p))

    @classmethod
    def of(cls, data: bytes) -> _Bytes:
        return cls(len(data), data)


class _Oid(Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _Element(Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Element)))


_KERBEROS: Final = _Oid(9, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
_PRINCIPAL: Final = _Oid(10, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise KerberosFailed(
            f"Kerberos needs {_LIBRARY}: {error}. On Debian or Ubuntu: apt-get install libgssapi-krb5-2"
        ) from error
    for name in ("import_name", "acquire_cred_from", "init_sec_context", "wrap", "unwrap", "display_status"):
        getattr(library, f"gss_{name}").restype = c_uint32
    return library


class GssapiClient:
    """SASL's GSSAPI mechanism, for one connection: `respond` to each challenge of the server, then wrap what is sent.

    `service` is the server's principal, `principal` the client's; None: the keytab's first, or of the ticket cache.
    With a `keytab` tickets are got from it, and again when they have expired; they stay in this process. Without one
    they are those of `kinit`.
    """

    mechanism: Final = "GSSAPI"

    def __init__(self, service: str, principal: str | None, keytab: str | None) -> None:
        self._context, self._credentials, self._server, self._client = (c_void_p() for _ in range(4))
        self._is_established = False
        self._layer = 0
        try:
            _name(service, self._server)
            if principal is not None:
                _name(principal, self._client)
            store = _store(principal, keytab)
            _call(
                "acquire_cred_from",
                self._client,
                c_uint32(0),
                None,
                c_int(_INITIATE),
                None if store is None else byref(store),
                byref(self._credentials),
                None,
                None,
            )
        except KerberosFailed:
            self.close()
            raise

    def respond(self, challenge: bytes) -> bytes:
        """The next message to the server. Raises KerberosFailed."""
        if self._is_established:
            return self._choose(challenge)
        answer = _Buffer()
        status = _call(
            "init_sec_context",
            self._credentials,
            byref(self._context),
            self._server,
            byref(_KERBEROS),
            c_uint32(_FLAGS),
            c_uint32(0),
            None,
            byref(_Bytes.of(challenge)),
            None,
            byref(answer),
            None,
            None,
        )
        self._is_established = not status & _CONTINUE
        return _taken(answer)

    def wrap(self, data: bytes) -> bytes:
        """As the layer that was agreed upon sends it."""
        return data if self._layer == _NONE else self._wrap(data, is_private=self._layer == _PRIVACY)

    def unwrap(self, data: bytes) -> bytes:
        """What the server sent."""
        return data if self._layer == _NONE else self._unwrap(data)

    def _choose(self, challenge: bytes) -> bytes:
        """The server's layers in one byte, and the size of its buffer in three: the cheapest layer is enough."""
        offered = self._unwrap(challenge)
        layers = offered[0] if len(offered) == 4 else 0
        self._layer = next((each for each in (_NONE, _INTEGRITY, _PRIVACY) if layers & each), 0)
        if not self._layer:
            raise KerberosFailed("the server offers no security layer of SASL that is known")
        size = bytes(3) if self._layer == _NONE else offered[1:]
        return self._wrap(bytes([self._layer]) + size, is_private=False)

    def _wrap(self, data: bytes, *, is_private: bool) -> bytes:
        made = _Buffer()
        _call("wrap", self._context, c_int(is_private), c_uint32(0), byref(_Bytes.of(data)), None, byref(made))
        return _taken(made)

    def _unwrap(self, data: bytes) -> bytes:
        made = _Buffer()
        _call("unwrap", self._context, byref(_Bytes.of(data)), byref(made), None, None)
        return _taken(made)

    def close(self) -> None:
        """Free what the library holds. May be called again."""
        minor = c_uint32()
        library = _library()
        library.gss_delete_sec_context(byref(minor), byref(self._context), None)
        library.gss_release_cred(byref(minor), byref(self._credentials))
        for name in (self._server, self._client):
            library.gss_release_name(byref(minor), byref(name))


class KerberosFailed(CatalogUnavailable):
    """What the library says."""


def _call(name: str, *arguments: Any) -> int:
    """Call a function and return its status. Raises KerberosFailed."""
    minor = c_uint32()
    status = int(getattr(_library(), f"gss_{name}")(byref(minor), *arguments))
    if status & _FAILED:
        general = "" if status & _FAILED == _UNSPECIFIED else _text(status, 1)
        raise KerberosFailed(": ".join(filter(None, ("Kerberos", general, _text(minor.value, 2)))))
    return status


def _text(status: int, kind: int) -> str:
    """What a status means; of several lines the first, which says most."""
    minor, more, text = c_uint32(), c_uint32(), _Buffer()
    _library().gss_display_status(
        byref(minor), c_uint32(status), c_int(kind), byref(_KERBEROS), byref(more), byref(text)
    )
    return _taken(text).decode(errors="replace")


def _name(text: str, name: c_void_p) -> None:
    _call("import_name", byref(_Bytes.of(text.encode())), byref(_PRINCIPAL), byref(name))


def _store(principal: str | None, keytab: str | None) -> _Store | None:
    """Where tickets come from, and are kept: not in files, and not with another catalog's."""
    if keytab is None:
        return None
    cache_name = f"MEMORY:{principal}:{keytab}"
    elements = (_Element * 2)(
        _Element(b"client_keytab", f"FILE:{keytab}".encode()), _Element(b"ccache", cache_name.encode())
    )
    return _Store(len(elements), elements)


def _taken(buffer: _Buffer) -> bytes:
    """The content of a buffer of the library, which is freed."""
    content = string_at(buffer.value, buffer.length) if buffer.length else b""
    _library().gss_release_buffer(byref(c_uint32()), byref(buffer))
    return content
