"""Glue over HTTP, for processes that a test starts: each request is answered by moto in the test's own process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from botocore import xform_name
from botocore.exceptions import ClientError
from moto import mock_aws


@contextmanager
def running_glue() -> Iterator[tuple[str, Any]]:
    """The endpoint's URL, and a client of it for the test, with an empty database `lake`."""
    with mock_aws():
        client = boto3.client("glue", "eu-west-1", aws_access_key_id="x", aws_secret_access_key="y")
        client.create_database(DatabaseInput={"Name": "lake"})
        with ThreadingHTTPServer(("127.0.0.1", 0), _handler(client)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}", client
            server.shutdown()


def _handler(client: Any) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            operation = self.headers["X-Amz-Target"].partition(".")[2]
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, getattr(client, xform_name(operation))(**given)
            except ClientError as error:
                status = 400
                answer = {"__type": error.response["Error"]["Code"], "message": error.response["Error"]["Message"]}
            body = json.dumps(answer, default=lambda time: time.timestamp()).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The test's output is not for requests."""

    return Handler
