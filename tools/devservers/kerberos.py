"""A Kerberos server on 127.0.0.1, MIT's as Debian packages it, with principals and keytabs for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Self

from typing_extensions import override

from devservers.locations import require
from devservers.process import CrashableServer, ServerError, ServerProcess, free_ports

REALM: Final = "LAKE.TEST"
START_TIMEOUT_S: Final = 60.0
_TICKETS: Final = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
  database_module = lake
}}
[dbmodules]
lake = {{
  db_library = db2
  database_name = {folder}/principals
}}
db_module_dir = {plugins}
"""
_SERVER: Final = """\
[kdcdefaults]
kdc_listen = ""
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
}}
"""


class Kerberos(CrashableServer):
    """One realm. Its files are in a folder of its own."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="bucketingest-kdc-")))
        self.port = free_ports(1)[0]

    @property
    def configuration(self) -> Path:
        """A krb5.conf for clients and servers."""
        return self.folder / "krb5.conf"

    @override
    def start(self) -> Self:
        """Start, and wait until it answers.

        Raises:
            MissingDependencyError: `make kerberos` was not run.
            ServerError: it did not come up; the message has the end of its log.
        """
        if not self.configuration.exists():
            (plugins,) = (require("kerberos") / "usr/lib").glob("*-linux-gnu/krb5/plugins/kdb")
            values = {"realm": REALM, "port": self.port, "folder": self.folder, "plugins": plugins}
            self.configuration.write_text(_TICKETS.format(**values))
            (self.folder / "kdc.conf").write_text(_SERVER.format(**values))
            self.run("sbin/kdb5_util", "create", "-s", "-W", "-P", "master", "-r", REALM)
        command = [str(self._binary("sbin/krb5kdc")), "-n"]
        return self._run(
            ServerProcess("Kerberos", command, log=self.folder / "log", environment=self.environment),
            timeout_s=START_TIMEOUT_S,
        )

    def add(self, principal: str) -> Path:
        """Make a principal, and return its keytab."""
        keytab = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.run("sbin/kadmin.local", "-q", f"addprinc -randkey {principal}")
        self.run("sbin/kadmin.local", "-q", f"ktadd -k {keytab} {principal}")
        return keytab

    def run(self, binary: str, *arguments: str) -> None:
        """Run one of its programs, as `bin/kinit`. Raises ServerError."""
        done = subprocess.run(
            [str(self._binary(binary)), *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **self.environment},
            check=False,
        )
        if done.returncode:
            raise ServerError(f"{binary} {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")

    @property
    def environment(self) -> dict[str, str]:
        """Of its own programs."""
        libraries = (require("kerberos") / "usr/lib").glob("*-linux-gnu")
        return {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        }

    @override
    def _answers(self) -> bool:
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self.port)) == 0

    def _binary(self, name: str) -> Path:
        return require("kerberos") / "usr" / name
