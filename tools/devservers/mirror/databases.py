"""Real databases on 127.0.0.1 whose changes Debezium can follow: PostgreSQL and MariaDB, as Debian packages them."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self, TypedDict

from typing_extensions import override

from devservers.locations import require
from devservers.process import CrashableServer, ServerError, ServerProcess, free_ports, that_dies_with_parent

START_TIMEOUT_S: Final = 60.0
_SOMEBODY: Final = 1000
"""Any user but root."""


class Database(CrashableServer):
    """One server. After `kill`, `start` brings it back on the same port with what was committed."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="bucketingest-db-")))
        self.port = free_ports(1)[0]

    @property
    @abstractmethod
    def url(self) -> str:
        """Of its first database, with a login that may do all."""

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @abstractmethod
    def _make(self) -> None:
        """The files of an empty server."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    @override
    def start(self) -> Self:
        """Start, and wait until it answers.

        Raises:
            MissingDependencyError: `make databases` was not run.
            ServerError: it did not come up; the message has the end of its log.
        """
        if not self._data.exists():
            self._make()
        name = type(self).__name__
        process = ServerProcess(name, self._command(), log=self.folder / "log", environment=_libraries())
        return self._run(process, timeout_s=START_TIMEOUT_S)


class Postgres(Database):
    """PostgreSQL 15 with logical decoding. It keeps what is committed through a kill of its processes."""

    @property
    @override
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @override
    def _make(self) -> None:
        made = ("-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        _run([*_not_as_root(), str(self._binary("initdb")), *made])

    @override
    def _command(self) -> list[str]:
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "wal_level": "logical",
            "fsync": "off",
            "jit": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        # In another user's name nothing ends with its parent: that is asked for anew.
        return [
            *_not_as_root(),
            *that_dies_with_parent([str(self._binary("postgres")), "-D", str(self._data), *options]),
        ]

    @override
    def _answers(self) -> bool:
        ready = [str(self._binary("pg_isready")), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, env={**os.environ, **_libraries()}, check=False).returncode == 0

    def _binary(self, name: str) -> Path:
        return require("databases") / "usr/lib/postgresql/15/bin" / name


class Login(TypedDict):
    """How to connect."""

    host: str
    port: int
    user: str
    password: str
    database: str


class MariaDB(Database):
    """MariaDB 10.11 with a binary log of whole rows."""

    user: Final = "dev"
    password: Final = "known-to-all"  # noqa: S105 - a server of a test, reachable from this machine only

    @property
    @override
    def url(self) -> str:
        return f"mysql://{self.user}:{self.password}@127.0.0.1:{self.port}/shop"

    @property
    def login(self) -> Login:
        """The same in parts, as clients of Python take it."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": "shop",
        }

    @override
    def _make(self) -> None:
        self._data.mkdir()
        scripts = ("system_tables", "performance_tables", "system_tables_data")
        texts = [(self._home / "share/mysql" / f"mysql_{name}.sql").read_text() for name in scripts]
        first, last = "create database mysql;\nuse mysql;\n", "flush privileges;\ncreate database shop;\n"
        user = f"create user {self.user} identified by '{self.password}';\ngrant all on *.* to {self.user};\n"
        _run([*self._start_of_command(), "--bootstrap", "--skip-networking"], "".join([first, *texts, last, user]))

    @override
    def _command(self) -> list[str]:
        log = ("--log-bin=log", "--binlog-format=ROW", "--binlog-row-image=FULL", "--server-id=1", "--sync-binlog=0")
        at = (f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self.folder / 'socket'}")
        return [*self._start_of_command(), *log, *at, "--default-time-zone=+00:00"]

    @override
    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                return bool(connection.recv(1))
        except OSError:
            return False

    @property
    def _home(self) -> Path:
        return require("databases") / "usr"

    def _start_of_command(self) -> list[str]:
        places = (f"--basedir={self._home}", f"--lc-messages-dir={self._home}/share/mysql", f"--datadir={self._data}")
        small = ("--innodb-use-native-aio=0", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2")
        as_is = ("--no-defaults", "--user=root", "--character-set-server=utf8mb4")
        return [str(self._home / "sbin/mariadbd"), *as_is, *places, *small]


def _libraries() -> dict[str, str]:
    """Where the unpacked packages have what this machine lacks."""
    folders = (require("databases") / "usr/lib").glob("*-linux-gnu")
    return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}


def _not_as_root() -> list[str]:
    """PostgreSQL refuses to run as root, who gets another number in a namespace of its own, with the same files."""
    if os.geteuid():
        return []
    return ["unshare", "--user", f"--map-user={_SOMEBODY}", f"--map-group={_SOMEBODY}", "--"]


def _run(command: Sequence[str], text: str = "") -> None:
    environment = {**os.environ, **_libraries()}
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise ServerError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
