"""A metastore that wants TLS, Kerberos or a password is synced as any other, and what is wrong is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from bucketingest.catalog.errors import CatalogUnavailable
from bucketingest.catalog.hive.connection import HiveConnection
from bucketingest.catalog.sync import HudiTarget
from bucketingest.catalog.table_state import TableState
from bucketingest.cli.main import call
from bucketingest.exit_codes import ExitCode
from bucketingest.storage import open_storage
from support.catalogs.secured import PASSWORD, SecuredMetastore, secured_metastore
from support.catalogs.tables import SyncedTable, registered
from support.oracle.environment import OracleEnvironment

KEYTAB = "/mnt/hive/keytab"


@pytest.fixture(scope="module")
def secured(
    oracle_environment: OracleEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredMetastore]:
    with secured_metastore(oracle_environment, tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.mark.parametrize("server", ["tls", "kerberos", "private", "password"])
def test_a_table_is_registered(secured: SecuredMetastore, server: str, tmp_path: Path) -> None:
    table, storage = SyncedTable(("region",), "SinglePartPartitionValueExtractor"), open_storage(str(tmp_path))
    table.write(tmp_path, regions=tuple(f"ü {n}" for n in range(120)))
    state = TableState.read(storage)
    assert state is not None
    target = HudiTarget("", partial(HiveConnection.open, secured.entry(server)), f"by_{server}", "snapshot")
    assert str(target.sync(storage, state)) == f"created by_{server}; 120 partitions added"
    assert str(target.sync(storage, state, check=True)) == "nothing to do"
    with closing(secured.open.connect()) as catalog:
        assert len(registered(catalog, f"by_{server}", tmp_path)["partitions"]) == 120


@pytest.mark.parametrize(
    ("server", "given", "message"),
    [
        ("tls", {"tls": {}}, "unable to get local issuer certificate.*trust its authority with hive.tls.caFile"),
        ("tls", {"tls": {"caFile": "/mnt/ca.crt"}}, "hive.tls.caFile /mnt/ca.crt: No such file.*spec.pod.volumes"),
        ("tls", {"tls": None}, "hive.tls and hive.kerberos must be as the metastore is set up"),
        ("kerberos", {"kerberos": None}, "hive.tls and hive.kerberos must be as the metastore is set up"),
        ("kerberos", {"kerberos": None, "tls": {}}, "hive.tls and hive.kerberos must be as the metastore is set up"),
        ("kerberos", {"kerberos": {"keytab": KEYTAB}}, f"hive.kerberos.keytab {KEYTAB}: No such file.*pod.volumes"),
        (
            "kerberos",
            {"kerberos": {"principal": "ingest@ELSE.TEST"}},
            r"as ingest@ELSE.TEST of the keytab /.*krb5.conf",
        ),
        ("kerberos", {"kerberos": {"principal": "nobody"}}, "the login was as nobody of the keytab"),
        ("kerberos", {"kerberos": {"service": "hive/else"}}, "Server hive/else@LAKE.TEST not found in Kerberos data"),
        ("kerberos", {"kerberos": {"service": "hive/_HOST@ELSE.TEST"}}, "Server krbtgt/ELSE.TEST@LAKE.TEST not found"),
        ("password", {"tls": {"login": {"username": "other"}}}, "it refuses the login: Error validating the login"),
    ],
)
def test_what_is_wrong_is_said(secured: SecuredMetastore, server: str, given: dict[str, Any], message: str) -> None:
    entry = secured.entry(server)
    with pytest.raises(CatalogUnavailable, match=f"(?s)thrift://localhost:.*{message}") as caught:
        HiveConnection.open(secured.entry(server, **_filled(given, entry.model_dump(by_alias=True))))
    assert PASSWORD not in str(caught.value)


def _filled(given: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """What is given, and beside it what is right, but for a field that is given as empty."""
    both = {}
    for name, value in given.items():
        inside = isinstance(value, dict) and value and isinstance(right[name], dict)
        both[name] = {**right[name], **_filled(value, right[name])} if inside else value
    return both


def test_a_certificate_for_another_name_is_not_trusted(secured: SecuredMetastore) -> None:
    uri = f"thrift://127.0.0.2:{secured.ports['tls']}"
    with pytest.raises(CatalogUnavailable, match=r"not valid for '127.0.0.2'.*name the host in uri as the certificate"):
        HiveConnection.open(secured.entry("tls", uri=uri))


def test_the_first_principal_of_a_keytab_is_enough(secured: SecuredMetastore) -> None:
    HiveConnection.open(secured.entry("kerberos", kerberos={"keytab": str(secured.files["keytab"])})).close()


def test_tickets_of_kinit_are_used_until_they_expire(
    secured: SecuredMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, cache, keytab = secured.entry("kerberos", kerberos={}), tmp_path / "tickets", secured.files["keytab"]
    secured.kerberos.run("bin/kinit", "-c", str(cache), "-k", "-t", str(keytab), "ingest")
    monkeypatch.setenv("KRB5CCNAME", str(cache))
    HiveConnection.open(entry).close()
    secured.wait_until_expired()
    monkeypatch.setenv("KRB5CCNAME", str(secured.files["tickets"]))
    with pytest.raises(CatalogUnavailable, match=r"expired.*of the tickets of kinit"):
        HiveConnection.open(entry)


def test_logins_are_refused_as_often_as_somebody_tries(secured: SecuredMetastore, tmp_path: Path) -> None:
    """The server logs each; what nobody read of that stopped it once."""
    wrong = tmp_path / "wrong"
    wrong.write_text("wr0ng-one\n")
    login = {"username": "ingest", "passwordFile": str(wrong)}
    entry = secured.entry("password", tls={"caFile": str(secured.files["ca"]), "login": login})
    for _ in range(40):
        with pytest.raises(CatalogUnavailable, match="it refuses the login"):
            HiveConnection.open(entry)


def test_by_hand(secured: SecuredMetastore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SyncedTable((), "").write(tmp_path / "orders")

    def synced(server: str, **given: Any) -> tuple[int, str]:
        table = {"path": str(tmp_path / "orders"), "recordKey": ["id"], "orderingField": "at", "index": {"buckets": 1}}
        entry = {
            **secured.entry(server, **given).model_dump(by_alias=True, exclude_none=True),
            "table": f"hand_{server}",
        }
        spec = {"source": {"rate": {"rowsPerSecond": 1}}, "table": table, "catalogs": [{"hive": entry}]}
        kind = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "orders"}}
        file = tmp_path / "orders.yaml"
        file.write_text(yaml.safe_dump({**kind, "spec": spec}))
        code = call(["sync", str(file)])
        said = capsys.readouterr()
        return code, said.out + said.err

    for server in ("kerberos", "password"):
        code, said = synced(server)
        assert (code, f"created hand_{server}_ro" in said) == (ExitCode.OK, True), said
    wrong = tmp_path / "wrong"
    wrong.write_text("wr0ng-one\n")
    login = {"username": "ingest", "passwordFile": str(wrong)}
    code, said = synced("password", tls={"caFile": str(secured.files["ca"]), "login": login})
    assert (code, "it refuses the login" in said, "wr0ng-one" in said) == (ExitCode.CATALOG_FAILED, True, False), said
