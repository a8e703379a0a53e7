"""A real schema registry on 127.0.0.1 for tests: Apicurio with Confluent's API, everything in memory."""

import json
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from typing_extensions import override

from devservers.locations import require
from devservers.process import CrashableServer, ServerProcess, answers, free_ports

START_TIMEOUT_S = 120.0


class SchemaRegistry(CrashableServer):
    """One registry. Use it as a context manager; `kill` makes it one that is down, and `start` an empty one."""

    def __init__(self, *, host: str = "127.0.0.1", heap: str = "256m") -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="bucketingest-registry-")))
        self._host, self._heap = host, heap
        self._port = free_ports(1, host=host)[0]

    @property
    def url(self) -> str:
        """Where it has Confluent's API."""
        return f"http://{self._host}:{self._port}/apis/ccompat/v7"

    def register(
        self, subject: str, schema: Any, references: Sequence[dict[str, Any]] = (), *, kind: str = "AVRO"
    ) -> int:
        """Register a schema as the subject's newest; returns its id. `kind`: AVRO, JSON or PROTOBUF."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        return int(self._ask("POST", f"subjects/{urllib.parse.quote(subject, safe='')}/versions", body)["id"])

    def only_compatible(self, subject: str, mode: str) -> None:
        """From now on the subject takes no version that is not compatible by Confluent's mode, such as FULL."""
        self._ask("PUT", f"config/{urllib.parse.quote(subject, safe='')}", {"compatibility": mode})

    def _ask(self, method: str, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    @override
    def start(self) -> Self:
        """Start and wait until it is ready.

        Raises:
            MissingDependencyError: `make apicurio-registry` was not run.
            ServerError: it did not come up; the message has the end of its log.
        """
        jars = require("apicurio-registry")
        command = [
            "java",
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dquarkus.http.host={self._host}",
            f"-Dquarkus.http.port={self._port}",
            "-jar",
            str(next(jars.glob("apicurio-registry-app-*-runner.jar"))),
        ]
        process = ServerProcess("schema registry", command, log=self.folder / "registry.log")
        return self._run(process, timeout_s=START_TIMEOUT_S)

    @override
    def _answers(self) -> bool:
        return answers(f"{self.url}/subjects")
