"""In which catalogs engines find the table by its name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.scalars import ALLOWED_KEY

_CatalogName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9_]+$",
        max_length=128,
        json_schema_extra={ALLOWED_KEY: "a name of lower-case letters, digits and _, at most 128 characters"},
    ),
]


_TableName = Annotated[
    str,
    Field(
        pattern=r"^([a-z0-9_]|\{topic\})+$",
        max_length=128,
        json_schema_extra={
            ALLOWED_KEY: "a name of lower-case letters, digits and _, at most 128 characters; with tables and {topic}"
        },
    ),
]


class _Place(SpecModel):
    database: _CatalogName = Field(description="Database, which must exist.")
    table: _TableName | None = Field(
        default=None,
        description="Name NAME of the table there; that of the table in lower case when absent. With tables it has "
        "{topic}: the topic in lower case, with _ for what is neither letter nor digit.",
    )


class _Entry(_Place):
    views: Literal["all", "snapshot", "readOptimized"] = Field(
        default="all",
        description="Which tables are registered over the same files. all: NAME and NAME_rt, which show every commit "
        "to engines that read log files, and NAME_ro, which shows base files only. snapshot: NAME alone, as such. "
        "readOptimized: NAME alone, base files only.",
    )


_File = Annotated[
    str,
    Field(
        pattern=r"^/.*[^/]$",
        max_length=512,
        json_schema_extra={ALLOWED_KEY: "the path of a file, from /"},
    ),
]


class MetastoreLogin(SpecModel):
    """A user and a password (SASL PLAIN), as LDAP and custom authentication of Hive 4 ask for."""

    username: str = Field(description="The user.", min_length=1, max_length=256)
    password_file: _File = Field(
        description="File with the password, in one line, such as that of a Secret in spec.pod.volumes."
    )


class MetastoreTls(SpecModel):
    """How TLS is spoken. The certificate of the server and its name are checked always."""

    ca_file: _File | None = Field(
        default=None,
        description="File with the certificates to trust, in PEM, such as that of a Secret or ConfigMap in "
        "spec.pod.volumes. Those of the image, or of the file that SSL_CERT_FILE names, when absent.",
    )
    login: MetastoreLogin | None = Field(default=None, description="Log in with a user and a password.")


class MetastoreKerberos(SpecModel):
    """How Kerberos is spoken (SASL GSSAPI). Realms and their servers are those of krb5.conf (KRB5_CONFIG)."""

    service: str = Field(
        default="hive/_HOST",
        description="The metastore's principal, as its hive.metastore.kerberos.principal. _HOST is the host in uri. "
        "Without @REALM, that of krb5.conf.",
        pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+(@[A-Za-z0-9._-]+)?$",
        max_length=512,
        json_schema_extra={ALLOWED_KEY: "SERVICE/HOST or SERVICE/HOST@REALM"},
    )
    principal: str | None = Field(
        default=None,
        description="Who the job is. The first of the keytab when absent.",
        pattern=r"^[A-Za-z0-9._/-]+(@[A-Za-z0-9._-]+)?$",
        max_length=512,
        json_schema_extra={ALLOWED_KEY: "NAME or NAME@REALM"},
    )
    keytab: _File | None = Field(
        default=None,
        description="File with the principal's keys, such as that of a Secret in spec.pod.volumes: new tickets come "
        "from it. The tickets of kinit (KRB5CCNAME) when absent.",
    )


class HiveCatalog(_Entry):
    """A Hive metastore."""

    uri: str = Field(
        description="Where it listens, such as thrift://metastore:9083; several, separated by commas, are tried in "
        "turn.",
        pattern=r"^thrift://[A-Za-z0-9.-]+:[0-9]{1,5}(,thrift://[A-Za-z0-9.-]+:[0-9]{1,5})*$",
        max_length=1024,
        json_schema_extra={ALLOWED_KEY: "thrift://HOST:PORT, or several of these separated by commas"},
    )
    tls: MetastoreTls | None = Field(default=None, description="Speak TLS with it; {} is enough.")
    kerberos: MetastoreKerberos | None = Field(default=None, description="Log in by Kerberos; {} is enough.")


class GlueCatalog(_Entry):
    """An AWS Glue data catalog. Credentials are those of the driver's pod or process, as for S3."""

    region: str = Field(
        description="AWS region, such as eu-west-1.",
        pattern=r"^[a-z0-9-]+$",
        max_length=64,
        json_schema_extra={ALLOWED_KEY: "a region of AWS, such as eu-west-1"},
    )
    catalog_id: str | None = Field(
        default=None,
        description="AWS account of the catalog; that of the credentials when absent.",
        pattern=r"^[0-9]{12}$",
        max_length=12,
        json_schema_extra={ALLOWED_KEY: "the 12 digits of an AWS account"},
    )


class IcebergCatalog(_Place):
    """A catalog of Iceberg tables, in which the table is one too: with its base files, as of the last compaction."""

    type: Literal["rest", "sql", "glue", "hive"] = Field(
        description="Which catalog it is. rest: one with Iceberg's REST interface. sql: a database. glue: AWS Glue. "
        "hive: a Hive metastore."
    )
    name: str = Field(
        default="default",
        description="Name of the catalog: NAME in the variables of the environment that give it more properties, such "
        "as PYICEBERG_CATALOG__NAME__CREDENTIAL, and with sql in its rows.",
        pattern=r"^[a-z0-9]+$",
        max_length=64,
        json_schema_extra={ALLOWED_KEY: "a name of lower-case letters and digits, at most 64 characters"},
    )
    uri: str | None = Field(
        default=None,
        description="Where it is, such as https://catalog:8181, sqlite:////data/catalog.db, thrift://metastore:9083; "
        "without credentials. PYICEBERG_CATALOG__NAME__URI when absent.",
        pattern=r"^[a-z0-9+]+://[^@\s]*$",
        max_length=1024,
        json_schema_extra={ALLOWED_KEY: "SCHEME://REST, without user and password"},
    )
    warehouse: str | None = Field(
        default=None,
        description="Where the catalog puts the files of Iceberg's metadata, such as s3://lake/iceberg; with rest the "
        "name of a warehouse. The database's own when absent.",
        max_length=1024,
    )


class Catalog(SpecModel):
    """A catalog: exactly one of hive, glue, iceberg."""

    hive: HiveCatalog | None = Field(default=None, description="A Hive metastore.")
    glue: GlueCatalog | None = Field(default=None, description="An AWS Glue data catalog.")

    iceberg: IcebergCatalog | None = Field(
        default=None, description="A catalog of Iceberg tables, for engines that read these: they see base files only."
    )

    @property
    def entry(self) -> HiveCatalog | GlueCatalog | IcebergCatalog:
        """The one that is given."""
        chosen = self.hive or self.glue or self.iceberg
        assert chosen is not None, "the rules of the spec demand one"
        return chosen
