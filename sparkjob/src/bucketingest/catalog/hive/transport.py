"""How a metastore is reached: in the clear or by TLS, and who the client is, by Kerberos or a password (SASL)."""

from __future__ import annotations

import ssl
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportBase, TTransportException

from bucketingest.catalog.errors import CatalogUnavailable
from bucketingest.catalog.hive.gssapi import GssapiClient
from bucketingest.spec.fields.catalogs import HiveCatalog, MetastoreKerberos, MetastoreLogin, MetastoreTls

_START, _OK, _COMPLETE = 1, 2, 5
"""States of a negotiation, as Thrift's TSaslTransport has them; 3 and 4 refuse, with the reason as text."""
_HELLO_MAX: Final = 1024 * 1024
_FRAME_MAX: Final = 256 * 1024 * 1024
"""Bytes. Of a slice of partitions it is some hundred kilobytes."""
_PASSWORD_MAX: Final = 4096
_MOUNT: Final = "mount its Secret with spec.pod.volumes, or correct the path"


def opened(host: str, port: int, entry: HiveCatalog, timeout_seconds: float) -> TTransportBase:
    """A connection that is open, secured as the entry says. Raises CatalogUnavailable, TException and OSError."""
    socket = TSocket(host, port) if entry.tls is None else TSSLSocket(host, port, ssl_context=_context(entry.tls))
    socket.setTimeout(timeout_seconds * 1000)
    transport = TBufferedTransport(socket)
    transport.open()
    try:
        client = _client(host, entry)
        return transport if client is None else SaslTransport(transport, client)
    except BaseException:
        transport.close()
        raise


class SaslClient(Protocol):
    """One mechanism of SASL."""

    @property
    def mechanism(self) -> str:
        """Its name."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """The next message to the server; the first is asked for with no challenge."""
        ...

    def wrap(self, data: bytes) -> bytes:
        """As it is sent."""
        ...

    def unwrap(self, data: bytes) -> bytes:
        """As it was meant."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


@dataclass(frozen=True, slots=True)
class PlainClient:
    """A user and a password (RFC 4616)."""

    login: MetastoreLogin
    mechanism: str = "PLAIN"

    def respond(self, challenge: bytes) -> bytes:
        """See `SaslClient`."""
        password = read_file(self.login.password_file, "tls.login.passwordFile", _PASSWORD_MAX).rstrip(b"\r\n")
        return b"" if challenge else b"\0".join((b"", self.login.username.encode(), password))

    def wrap(self, data: bytes) -> bytes:
        """See `SaslClient`."""
        return data

    unwrap = wrap

    def close(self) -> None:
        """See `SaslClient`."""


class SaslTransport(TTransportBase):  # type: ignore[misc] # thrift has no types
    """What is sent in frames of 4 bytes of length and their content, after a negotiation (Thrift's TSaslTransport).

    Thrift's own class has its SASL from `pure-sasl`.
    """

    def __init__(self, transport: TTransportBase, client: SaslClient) -> None:
        """Negotiate. Raises CatalogUnavailable and TException, also for a server that refuses."""
        self._transport, self._client = transport, client
        self._written, self._read = bytearray(), memoryview(b"")
        try:
            self._negotiate()
        except BaseException:
            client.close()
            raise

    def _negotiate(self) -> None:
        self._say(_START, self._client.mechanism.encode())
        self._say(_OK, self._client.respond(b""))
        while True:
            status, length = struct.unpack(">BI", self._transport.readAll(5))
            said = self._transport.readAll(_checked(length, _HELLO_MAX))
            if status == _COMPLETE:
                return
            if status != _OK:
                raise CatalogUnavailable(f"it refuses the login: {said.decode(errors='replace')}")
            self._say(_OK, self._client.respond(said))

    def _say(self, status: int, message: bytes) -> None:
        self._transport.write(struct.pack(">BI", status, len(message)) + message)
        self._transport.flush()

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        """See thrift."""
        return bool(self._transport.isOpen())

    def read(self, size: int) -> bytes:
        """At least one byte of the frames, at most `size`."""
        if not self._read:
            (length,) = struct.unpack(">I", self._transport.readAll(4))
            self._read = memoryview(self._client.unwrap(self._transport.readAll(_checked(length, _FRAME_MAX))))
        taken, self._read = self._read[:size], self._read[size:]
        return bytes(taken)

    def write(self, data: bytes) -> None:
        """Kept until `flush`."""
        self._written += data

    def flush(self) -> None:
        """Send one frame."""
        frame = self._client.wrap(bytes(self._written))
        self._written.clear()
        self._transport.write(struct.pack(">I", len(frame)) + frame)
        self._transport.flush()

    def close(self) -> None:
        """End the connection."""
        self._client.close()
        self._transport.close()


def _checked(length: int, most: int) -> int:
    if length > most:
        raise TTransportException(TTransportException.SIZE_LIMIT, f"{length} bytes at once, more than {most}")
    return length


def _client(host: str, entry: HiveCatalog) -> SaslClient | None:
    if entry.kerberos is not None:
        return _kerberos(host, entry.kerberos)
    return None if entry.tls is None or entry.tls.login is None else PlainClient(entry.tls.login)


def _kerberos(host: str, given: MetastoreKerberos) -> GssapiClient:
    if given.keytab is not None:
        read_file(given.keytab, "kerberos.keytab", _HELLO_MAX)
    return GssapiClient(given.service.replace("_HOST", host.lower()), given.principal, given.keytab)


def _context(tls: MetastoreTls) -> ssl.SSLContext:
    """Checks the certificate and the name of the server."""
    if tls.ca_file is None:
        return ssl.create_default_context()
    trusted = read_file(tls.ca_file, "tls.caFile", _HELLO_MAX).decode(errors="replace")
    try:
        return ssl.create_default_context(cadata=trusted)
    except (ssl.SSLError, ValueError) as error:
        raise CatalogUnavailable(f"hive.tls.caFile {tls.ca_file} has no certificate in PEM: correct it") from error


def read_file(path: str, field: str, most: int) -> bytes:
    """The content of a file that the entry names. Raises CatalogUnavailable."""
    try:
        with Path(path).open("rb") as stream:
            content = stream.read(most + 1)
    except OSError as error:
        raise CatalogUnavailable(f"hive.{field} {path}: {error.strerror}: {_MOUNT}") from error
    if not content or len(content) > most:
        raise CatalogUnavailable(f"hive.{field} {path} is empty, or longer than {most} bytes: correct it")
    return content
