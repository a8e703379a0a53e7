"""A server that answers slowly, for processes that cannot be given a slow storage: a proxy in front of it."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from datetime import timedelta
from typing import Self
from urllib.parse import urlsplit

_PIECE = 1024**2


class SlowProxy:
    """Hands bytes to and from an `http://host:port`, each piece of a request `late`. A context manager."""

    def __init__(self, endpoint: str, late: timedelta) -> None:
        seconds = late / timedelta(seconds=1)
        place = urlsplit(endpoint)
        assert place.hostname is not None
        there = (place.hostname, place.port or 80)

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                client: socket.socket = self.request
                with socket.create_connection(there) as server:
                    back = threading.Thread(target=_pump, args=(server, client, 0.0), daemon=True)
                    back.start()
                    _pump(client, server, seconds)
                    back.join()

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _pump(source: socket.socket, target: socket.socket, late: float) -> None:
    """Until one of them is closed."""
    try:
        while piece := source.recv(_PIECE):
            time.sleep(late)
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
