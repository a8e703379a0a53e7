"""Stands between a client and its server: takes the server away, brings it back, makes it slow, or silent."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Self


class Proxy:
    """Passes connections on to a port of this machine. Use it as a context manager."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.delay = 0.0
        """Seconds by which each answer comes late."""
        self.held = 0
        """How many answers wait until they may go."""
        self._is_away = False
        self._speaks = threading.Event()
        self._speaks.set()
        self._open: set[socket.socket] = set()

    def take_away(self) -> None:
        """End every connection, and each new one at once."""
        self._is_away = True
        for each in list(self._open):
            _end(each)

    def bring_back(self) -> None:
        self._is_away = False

    def hold_answers(self) -> None:
        """Requests arrive, and answers wait."""
        self._speaks.clear()

    def let_answers_go(self) -> None:
        self._speaks.set()

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                if self._is_away:
                    _end(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self._to))
                self._open |= {client, server}
                threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if answers:
                    self.held += 1
                    self._speaks.wait()
                    self.held -= 1
                    time.sleep(self.delay)
                sink.sendall(data)
        for each in (source, sink):
            _end(each)
            self._open.discard(each)

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._listener)
        self.take_away()
        self._speaks.set()


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
