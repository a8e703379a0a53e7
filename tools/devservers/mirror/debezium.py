"""Debezium Server: follows a database of this machine, and writes its changes into topics of a broker."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from typing_extensions import override

from devservers.locations import java_25, require
from devservers.mirror.databases import Database, MariaDB
from devservers.process import CrashableServer, ServerProcess, answers, free_ports

START_TIMEOUT_S: Final = 120.0


class DebeziumServer(CrashableServer):
    """One connector. After `kill`, `start` goes on where it was, or a little before: it sends some events again."""

    def __init__(
        self, database: Database, bootstrap_servers: str, *, prefix: str, settings: Mapping[str, str] | None = None
    ) -> None:
        """`prefix`: of its topics. `settings`: of Debezium, beside what the connection needs."""
        super().__init__(Path(tempfile.mkdtemp(prefix="bucketingest-debezium-")))
        self._port = free_ports(1)[0]
        self._settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self._port),
            "quarkus.log.console.json": "false",
            "debezium.sink.type": "kafka",
            "debezium.sink.kafka.producer.bootstrap.servers": bootstrap_servers,
            "debezium.sink.kafka.producer.key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "debezium.sink.kafka.producer.value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "debezium.format.key.schemas.enable": "false",
            "debezium.format.value.schemas.enable": "false",
            "debezium.source.topic.prefix": prefix,
            "debezium.source.offset.storage.file.filename": str(self.folder / "offsets"),
            "debezium.source.database.hostname": "127.0.0.1",
            "debezium.source.database.port": str(database.port),
            "debezium.source.skipped.operations": "none",
            **(_of_mariadb(self.folder) if isinstance(database, MariaDB) else _of_postgres(prefix)),
            **(settings or {}),
        }

    @property
    def log(self) -> Path:
        """What it writes to stdout and stderr."""
        return self.folder / "log"

    @override
    def start(self) -> Self:
        """Start, and wait until it is ready; its snapshot may not have ended by then.

        Raises:
            MissingDependencyError: `make debezium` was not run, or there is no Java 25.
            ServerError: it did not come up; the message has the end of its log.
        """
        java, home = java_25("Debezium"), require("debezium")
        config = self.folder / "config"
        config.mkdir(exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self._settings.items()]
        (config / "application.properties").write_text("".join(lines))
        command = [
            *(str(java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{config}:{home}/*:{home}/lib/*", "io.debezium.server.Main"),
        ]
        return self._run(ServerProcess("Debezium", command, log=self.log), timeout_s=START_TIMEOUT_S)

    @override
    def _answers(self) -> bool:
        return answers(f"http://127.0.0.1:{self._port}/q/health/ready")


def _of_postgres(prefix: str) -> dict[str, str]:
    return {
        "debezium.source.connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "debezium.source.database.user": "postgres",
        "debezium.source.database.password": "none",
        "debezium.source.database.dbname": "postgres",
        "debezium.source.plugin.name": "pgoutput",
        "debezium.source.slot.name": prefix,
        "debezium.source.publication.name": prefix,
        "debezium.source.publication.autocreate.mode": "filtered",
    }


def _of_mariadb(folder: Path) -> dict[str, str]:
    return {
        "debezium.source.connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "debezium.source.database.user": MariaDB.user,
        "debezium.source.database.password": MariaDB.password,
        "debezium.source.database.server.id": "1234",
        "debezium.source.database.include.list": "shop",
        "debezium.source.schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "debezium.source.schema.history.internal.file.filename": str(folder / "history"),
    }
