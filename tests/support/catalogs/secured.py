"""A metastore that wants to know who asks: by TLS, by Kerberos, or by TLS with a user and a password.

Hive 2.3.9 has the first two. Its Thrift and the SASL server of Hive's other service are what later metastores have for
the third.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError

from bucketingest.spec.fields.catalogs import HiveCatalog
from devservers.certificates import Authority
from devservers.kerberos import REALM, Kerberos
from devservers.process import ServerError
from support.catalogs.metastore import Metastore, running_metastore
from support.oracle.environment import OracleEnvironment

PASSWORD: Final = "open-s3same"
_START_SECONDS: Final = 120.0
_STORE: Final = "changeit"


@dataclass(frozen=True)
class SecuredMetastore:
    """One database behind several servers."""

    open: Metastore
    ports: dict[str, int]
    files: dict[str, Path]
    """`ca`, `keytab`, `password`, and `tickets` that live for a second."""
    kerberos: Kerberos

    def entry(self, server: str, **given: Any) -> HiveCatalog:
        """How a server is reached, if nothing else is given."""
        tls = {"caFile": str(self.files["ca"])}
        login = {"username": "ingest", "passwordFile": str(self.files["password"])}
        by_kerberos = {"kerberos": {"principal": "ingest", "keytab": str(self.files["keytab"])}}
        ways: dict[str, dict[str, Any]] = {
            "tls": {"tls": tls},
            "kerberos": by_kerberos,
            "private": by_kerberos,
            "password": {"tls": {**tls, "login": login}},
        }
        uri = f"thrift://localhost:{self.ports[server]}"
        return HiveCatalog.model_validate({"uri": uri, "database": "default", **ways[server], **given})

    def wait_until_expired(self) -> None:
        """Until the tickets are."""
        deadline = time.monotonic() + _START_SECONDS
        while self._are_valid():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def _are_valid(self) -> bool:
        try:
            self.kerberos.run("bin/klist", "-s", str(self.files["tickets"]))
        except ServerError:
            return False
        return True


@contextmanager
def secured_metastore(oracle: OracleEnvironment, folder: Path) -> Iterator[SecuredMetastore]:
    """Start all of it. The environment must have KRB5_CONFIG of it while it is asked: this sets it."""
    with Kerberos() as kerberos:
        keytab, of_server = kerberos.add("ingest"), kerberos.add("hive/localhost")
        tickets = kerberos.folder / "tickets"
        kerberos.run("bin/kinit", "-l", "1s", "-c", str(tickets), "-k", "-t", str(keytab), "ingest")
        authority = Authority(folder / "authority")
        password = folder / "password"
        password.write_text(f"{PASSWORD}\n")
        files = {"ca": authority.file, "keytab": keytab, "tickets": tickets, "password": password}
        store = _key_store(authority)
        sasl = {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.keytab.file": str(of_server),
            "hive.metastore.kerberos.principal": f"hive/localhost@{REALM}",
        }
        tls = {
            "hive.metastore.use.SSL": "true",
            "hive.metastore.keystore.path": str(store),
            "hive.metastore.keystore.password": _STORE,
        }
        core = {"hadoop.security.authentication": "kerberos"}
        flags = [f"-Djava.security.krb5.conf={kerberos.configuration}"]
        before = os.environ.get("KRB5_CONFIG")
        os.environ["KRB5_CONFIG"] = str(kerberos.configuration)
        try:
            with running_metastore(oracle, folder / "metastore", core, flags) as metastore:
                ports = {
                    "tls": metastore.serve(tls),
                    "kerberos": metastore.serve(sasl),
                    "private": metastore.serve({**sasl, "hadoop.rpc.protection": "privacy"}),
                    "password": _serve_with_password(metastore.jvm, store),
                }
                for port in ports.values():
                    _wait(port)
                yield SecuredMetastore(metastore, ports, files, kerberos)
        finally:
            os.environ.pop("KRB5_CONFIG")
            if before is not None:
                os.environ["KRB5_CONFIG"] = before


def _key_store(authority: Authority) -> Path:
    """Key and certificate for localhost, as Java reads them."""
    authority.issue("localhost", "127.0.0.1")
    folder = authority.file.parent
    names = ["-inkey", str(folder / "localhost.key"), "-in", str(folder / "localhost.crt")]
    made = folder / "store.p12"
    command = ["openssl", "pkcs12", "-export", *names, "-out", str(made), "-passout", f"pass:{_STORE}"]
    subprocess.run(command, check=True)
    return made


_LOGIN: Final = """
public class Login implements javax.security.auth.callback.CallbackHandler {
    private boolean isRight = false;

    public void handle(javax.security.auth.callback.Callback[] asked) {
        for (int at = 0; at < asked.length; at++) {
            if (asked[at] instanceof javax.security.auth.callback.PasswordCallback) {
                char[] given = ((javax.security.auth.callback.PasswordCallback) asked[at]).getPassword();
                isRight = "PASSWORD".equals(new String(given));
            } else if (asked[at] instanceof javax.security.sasl.AuthorizeCallback) {
                javax.security.sasl.AuthorizeCallback login = (javax.security.sasl.AuthorizeCallback) asked[at];
                login.setAuthorized(isRight && "ingest".equals(login.getAuthenticationID()));
            }
        }
    }
}
"""
"""Java asks it who may come in."""


def _login(jvm: Any) -> Any:
    compiler = jvm.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_LOGIN.replace("PASSWORD", PASSWORD))
    return compiler.getClassLoader().loadClass("Login").newInstance()


def _serve_with_password(jvm: Any, store: Path) -> int:
    apache = jvm.jvm.org.apache
    jvm.jvm.java.security.Security.addProvider(apache.hive.service.auth.PlainSaslServer.SaslPlainProvider())
    of_hive = apache.hadoop.hive.metastore
    handler = of_hive.HiveMetaStore.HMSHandler("password", apache.hadoop.hive.conf.HiveConf(), True)
    logins = apache.thrift.transport.TSaslServerTransport.Factory()
    logins.addServerDefinition("PLAIN", "NONE", None, jvm.jvm.java.util.HashMap(), _login(jvm))
    of_tls = apache.thrift.transport.TSSLTransportFactory
    parameters = of_tls.TSSLTransportParameters()
    parameters.setKeyStore(str(store), _STORE)
    port = int(of_hive.MetaStoreUtils.findFreePort())
    pool = apache.thrift.server.TThreadPoolServer
    arguments = pool.Args(of_tls.getServerSocket(port, 0, None, parameters))
    server = pool(arguments.processor(of_hive.api.ThriftHiveMetastore.Processor(handler)).transportFactory(logins))

    def run() -> None:
        with suppress(Py4JError):  # it returns when the JVM ends
            server.serve()

    threading.Thread(target=run, daemon=True).start()
    return port


def _wait(port: int) -> None:
    """Until it listens."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "it does not listen: see the metastore's log"
        time.sleep(0.1)
