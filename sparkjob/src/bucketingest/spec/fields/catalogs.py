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


class _Place(SpecModel):
    database: _CatalogName = Field(description="Database, which must exist.")
    table: _CatalogName | None = Field(
        default=None, description="Name NAME of the table there; that of the table in lower case when absent."
    )


class _Entry(_Place):
    views: Literal["all", "snapshot", "readOptimized"] = Field(
        default="all",
        description="Which tables are registered over the same files. all: NAME and NAME_rt, which show every commit "
        "to engines that read log files, and NAME_ro, which shows base files only. snapshot: NAME alone, as such. "
        "readOptimized: NAME alone, base files only.",
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
