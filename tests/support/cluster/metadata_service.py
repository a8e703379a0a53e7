"""The metadata service from which a cloud's machines get their credentials: here there is none, so a small one that can
fail as theirs do.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from support.http_fake import FakeHandler, FakeServer

ROLE = "lake"
_FOLDER = "/latest/meta-data/iam/security-credentials/"
_VALID = timedelta(seconds=20)
"""Clients ask again some minutes before the end: with this they ask for each request."""


class MetadataService(FakeServer):
    """Answers as that of AWS, version 2, or not at all. A context manager."""

    def __init__(self, host: str, access_key: str, secret_key: str) -> None:
        self.is_away = False
        self.answers = 0
        outer = self

        class Handler(FakeHandler):
            def do_PUT(self) -> None:
                self._say("token")

            def do_GET(self) -> None:
                expires = datetime.now(UTC) + _VALID
                credentials = {
                    "Code": "Success",
                    "AccessKeyId": access_key,
                    "SecretAccessKey": secret_key,
                    "Token": "",
                    "Expiration": f"{expires:%Y-%m-%dT%H:%M:%SZ}",
                }
                self._say(ROLE if self.path == _FOLDER else json.dumps(credentials))

            def _say(self, text: str) -> None:
                outer.answers += not outer.is_away
                self.answer(503 if outer.is_away else 200, text.encode())

        super().__init__(Handler, host)
