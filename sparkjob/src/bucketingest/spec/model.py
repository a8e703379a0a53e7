"""BucketIngest itself: the one typed model behind the CRD, the operator and the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

import yaml
from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.catalogs import Catalog
from bucketingest.spec.fields.pod import Pod
from bucketingest.spec.fields.runtime import (
    Audit,
    Checkpoint,
    Commit,
    Errors,
    Health,
    Restart,
    SchemaEvolution,
    Slo,
    Upgrade,
)
from bucketingest.spec.fields.schema import inlined_schema, with_defaults
from bucketingest.spec.fields.services import Services
from bucketingest.spec.fields.source import (
    Source,
    Transform,
)
from bucketingest.spec.fields.spark import Spark
from bucketingest.spec.fields.table import Table
from bucketingest.spec.fields.tables import Tables
from bucketingest.spec.formats.format import Format
from bucketingest.spec.reading.view import View
from bucketingest.spec.rules import formats, pod, running, source, table, tables
from bucketingest.spec.rules.finding import PLACE, Finding
from bucketingest.spec.scalars import ALLOWED_KEY, Flag, OptionValue

API_GROUP: Final = "bucketingest.dev"
API_VERSION: Final = "v1alpha1"
KIND: Final = "BucketIngest"

_SERVER_FIELDS = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)

STATE_FOLDER: Final = "/var/lib/bucketingest"
"""Where a job keeps files that may be lost: writable in its pods, empty in each new one."""


_RULES: Final = tuple(rule for part in (source, formats, table, pod, tables, running) for rule in part.RULES)


def broken_rules(document: Mapping[str, Any]) -> list[Finding]:
    """All rules that a spec breaks: the value of `spec` as JSON, defaults filled in. Parts may be absent or of a wrong
    type: the rules that need them find nothing then, since the schema's own check reports them.
    """
    view = View(document)
    return [finding for rule in _RULES for finding in rule(view)]


class Metadata(SpecModel):
    """What the spec needs of a Kubernetes object's metadata; what the API server adds is left out."""

    name: str = Field(
        description="Name of the pipeline; names of its pods and services are made from it.",
        pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        max_length=52,
        json_schema_extra={
            ALLOWED_KEY: "lower-case letters, digits and '-', starting with a letter, at most 52 characters"
        },
    )
    namespace: str | None = Field(
        default=None,
        description="Kubernetes namespace; absent on one machine.",
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        json_schema_extra={ALLOWED_KEY: "lower-case letters, digits and '-', at most 63 characters"},
    )
    labels: dict[str, OptionValue] = Field(default={}, description="Kubernetes labels.", max_length=256)
    annotations: dict[str, str] = Field(default={}, description="Kubernetes annotations.", max_length=1024)

    @model_validator(mode="before")
    @classmethod
    def _drop_server_fields(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {name: value for name, value in data.items() if name not in _SERVER_FIELDS}
        return data


class BucketIngestSpec(SpecModel):
    """What a user wants: a source, a table, and how to get the rows from one into the other."""

    suspend: Flag = Field(default=False, description="Stop the pipeline after a commit and keep it stopped.")
    source: Source = Field(description="Where rows come from: exactly one of kafka, files, rate.")
    format: Format | None = Field(
        default=None, description="How a Kafka record is decoded. Required for kafka, not allowed otherwise."
    )
    transform: Transform = Field(default=Transform(), description="How decoded rows are reshaped.")
    table: Table = Field(description="The Hudi merge-on-read table to write.")
    tables: Tables | None = Field(
        default=None,
        description="Makes a table for each topic; table.path then has {topic}, which stands for the topic.",
    )
    commit: Commit = Field(default=Commit(), description="When input is read and when it becomes visible.")
    services: Services = Field(default=Services(), description="The work that keeps the table fast to read.")
    catalogs: tuple[Catalog, ...] = Field(
        default=(), description="Where engines find the table by its name.", max_length=8
    )
    audit: Audit | None = Field(
        default=None, description="Compares the table with the database that it mirrors; on a cluster only."
    )
    schema_evolution: SchemaEvolution = Field(
        default=SchemaEvolution(), description="Whether the table's columns follow the schemas of a registry."
    )
    errors: Errors = Field(
        default=Errors(), description="What happens to a row that cannot be decoded or has no record key."
    )
    checkpoint: Checkpoint = Field(default=Checkpoint(), description="Where Spark keeps its checkpoint.")
    health: Health = Field(default=Health(), description="When a running pipeline counts as unhealthy.")
    restart: Restart = Field(default=Restart(), description="When the operator gives up restarting.")
    upgrade: Upgrade = Field(default=Upgrade(), description="How a changed spec is taken over.")
    slo: Slo = Field(default=Slo(), description="What the pipeline promises to readers.")
    spark: Spark = Field(default=Spark(), description="The Spark application that runs the pipeline.")
    pod: Pod = Field(default=Pod(), description="The pods of the pipeline on a cluster.")

    @model_validator(mode="wrap")
    @classmethod
    def _check_rules(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Check the rules between fields also where single fields are wrong, so that one error has every problem."""
        try:
            spec = handler(data)
        except ValidationError as error:
            document = with_defaults(inlined_schema(cls), data) if isinstance(data, Mapping) else {}
            found = [*_details(error), *map(_detail, broken_rules(document))]
            raise ValidationError.from_exception_data(cls.__name__, found) from None
        if broken := broken_rules(spec.to_document()):
            raise ValidationError.from_exception_data(cls.__name__, [_detail(rule) for rule in broken])
        return spec


def _detail(finding: Finding) -> InitErrorDetails:
    location, wrong, allowed = finding
    error = PydanticCustomError("rule", "{wrong}", {"wrong": wrong, "allowed": allowed})
    return InitErrorDetails(type=error, loc=location, input=None)


def _details(error: ValidationError) -> list[InitErrorDetails]:
    """The errors of a failed validation in the form in which pydantic raises them again."""
    return [
        InitErrorDetails(
            # Our own scalars raise the one custom type that the fields have.
            type=PydanticCustomError("written_value", "{wrong}", {"wrong": each["msg"]})
            if each["type"] == "written_value"
            else each["type"],
            loc=each["loc"],
            input=each["input"],
            ctx=each.get("ctx", {}),
        )
        for each in error.errors(include_url=False)
    ]


class BucketIngest(SpecModel):
    """One ingestion pipeline: `kubectl apply` it, or run the same file on one machine."""

    api_version: Literal["bucketingest.dev/v1alpha1"] = Field(description="bucketingest.dev/v1alpha1")
    kind: Literal["BucketIngest"] = Field(description="BucketIngest")
    metadata: Metadata = Field(description="Name and namespace.")
    spec: BucketIngestSpec = Field(description="What is wanted.")

    @model_validator(mode="before")
    @classmethod
    def _drop_status(cls, data: Any) -> Any:
        """Leave out the operator's status, so that an object read from a cluster can be used as it is."""
        if isinstance(data, dict):
            return {name: value for name, value in data.items() if name != "status"}
        return data

    @property
    def pipeline(self) -> str:
        """Identity of the pipeline: `table.pipeline`, else `namespace/name`, or the name alone where there is no
        namespace.
        """
        if self.spec.table.pipeline is not None and self.spec.tables is None:
            return self.spec.table.pipeline
        namespace = self.metadata.namespace
        return f"{namespace}/{self.metadata.name}" if namespace else self.metadata.name

    @property
    def table_name(self) -> str:
        """Name of the table in its properties and its Avro schema."""
        return self.spec.table.name or self.metadata.name.replace("-", "_")

    @property
    def record_key(self) -> tuple[str, ...]:
        """Columns that identify a row: of a message that is appended, where it is in Kafka. None at all if messages
        have an envelope, and it is not known yet what their key is.
        """
        if self.spec.table.record_key is not None:
            return self.spec.table.record_key
        if self.spec.format is not None and self.spec.format.envelope is not None:
            return ()
        assert self.spec.source.kafka is not None, "the rules refuse it"
        return tuple(self.spec.source.kafka.named_columns[part] for part in PLACE)

    @property
    def keeps_unavailable(self) -> bool:
        """Whether a value that was not sent is as it was in the table."""
        format_ = self.spec.format
        return format_ is not None and format_.envelope is not None and format_.envelope.unavailable == "keep"

    @property
    def hash_fields(self) -> tuple[str, ...]:
        """Columns whose values are hashed to a bucket, in the order of the record key, as Hudi takes them."""
        chosen = self.spec.table.index.hash_fields
        return self.record_key if chosen is None else tuple(column for column in self.record_key if column in chosen)

    @property
    def dead_letter_path(self) -> str | None:
        """Base path of the dead-letter table; None in mode fail."""
        if self.spec.errors.mode == "fail":
            return None
        before = "_" if self.spec.tables is None else "~"  # no topic has it in its name: its table would be there
        return self.spec.errors.dead_letter_path or f"{self.spec.table.path}{before}dead_letters"

    @property
    def checkpoint_path(self) -> str:
        """Directory for Spark's checkpoint. A source of files has none."""
        table = self.spec.table.path
        if self.spec.checkpoint.path is not None:
            return self.spec.checkpoint.path
        is_local = "://" not in table or table.startswith("file:")
        if is_local:
            return f"{table}_checkpoints/{self.metadata.name}"
        # Spark has no access to object stores without jars of its own.
        return f"{STATE_FOLDER}/checkpoints/{self.pipeline}"

    def to_yaml(self) -> str:
        """The resource as YAML, without fields that have their default, so that an older version can read it too.

        It reads back as an equal model.
        """
        return yaml.safe_dump(self.to_document(defaults=False), sort_keys=False, allow_unicode=True, width=120)
