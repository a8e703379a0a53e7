"""A Trino server on this machine: the engine that most people who have a catalog query with."""

import json
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from typing_extensions import override

from devservers.locations import java_25, require
from devservers.process import Server, ServerProcess, free_ports

START_TIMEOUT_S = 400.0
_JVM = (
    *("-Xmx1536M", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=1"),
    *(
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",
        "-Djdk.attach.allowAttachSelf=true",
        "-Dfile.encoding=UTF-8",
    ),
    *("--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"),
    "--sun-misc-unsafe-memory-access=allow",
)


class TrinoError(Exception):
    """A query failed; the message is Trino's."""


class TrinoServer(Server):
    """One node. `catalogs`: the properties of each, by its name in SQL."""

    def __init__(self, catalogs: Mapping[str, Mapping[str, str]]) -> None:
        self._catalogs = catalogs
        self._folder = Path(tempfile.mkdtemp(prefix="bucketingest-trino-"))
        self._port = free_ports(1)[0]
        self._process: ServerProcess | None = None

    @override
    def start(self) -> Self:
        """Start, and wait until it has loaded its catalogs: half a minute on an idle machine.

        Raises:
            MissingDependencyError: Trino, or Java 25.
            ServerError: it did not come up.
        """
        home, etc = require("trino"), self._folder / "catalog"
        etc.mkdir()
        for name, properties in self._catalogs.items():
            (etc / f"{name}.properties").write_text(_text(properties))
        config = self._folder / "config.properties"
        config.write_text(
            _text(
                {
                    "coordinator": "true",
                    "node-scheduler.include-coordinator": "true",
                    "http-server.http.port": str(self._port),
                    "discovery.uri": f"http://127.0.0.1:{self._port}",
                    "catalog.management": "static",
                }
            )
        )
        self._process = ServerProcess(
            "trino",
            [
                str(java_25("Trino")),
                *_JVM,
                *(f"-Dconfig={config}", "-Dnode.environment=test", "-Dnode.id=one"),
                *(f"-Dnode.data-dir={self._folder}/data", f"-Dplugin.dir={home}/plugin"),
                *(f"-Dcatalog.config-dir={etc}", "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"),
            ],
            log=self._folder / "log",
        )
        self._process.wait_until(self._answers, timeout_s=START_TIMEOUT_S)
        return self

    @override
    def stop(self) -> None:
        """End it; what it wrote goes too."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def query(self, sql: str) -> list[list[Any]]:
        """The rows of a statement. Raises TrinoError."""
        answer = self._ask("/v1/statement", sql.encode())
        rows: list[list[Any]] = []
        while True:
            if "error" in answer:
                raise TrinoError(f"{sql}: {answer['error']['message']}")
            rows += answer.get("data", [])
            if "nextUri" not in answer:
                return rows
            answer = self._ask(answer["nextUri"])

    def _ask(self, where: str, body: bytes | None = None) -> Any:
        url = where if where.startswith("http") else f"http://127.0.0.1:{self._port}{where}"
        request = urllib.request.Request(url, data=body, headers={"X-Trino-User": "test"})
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)

    def _answers(self) -> bool:
        try:
            return self._ask("/v1/info").get("starting") is False and self.query("SELECT 1") == [[1]]
        except (urllib.error.URLError, OSError, TrinoError):
            return False


def _text(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())
