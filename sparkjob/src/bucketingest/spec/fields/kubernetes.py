"""Names of Kubernetes objects that a spec refers to. All of them are in the namespace of the BucketIngest."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.scalars import ALLOWED_KEY, SmallText

ObjectName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        max_length=253,
        json_schema_extra={ALLOWED_KEY: "the name of a Kubernetes object: lower-case letters, digits, '-' and '.'"},
    ),
]


class SecretReference(SpecModel):
    """Names a Secret."""

    name: SmallText = Field(description="Name of a Secret in the namespace of the BucketIngest.")


class SecretKey(SpecModel):
    """Names one key of a Secret."""

    name: ObjectName = Field(description="Name of a Secret in the namespace of the BucketIngest.")
    key: SmallText = Field(
        description="The key in it.",
        pattern=r"^[A-Za-z0-9._-]+$",
        json_schema_extra={ALLOWED_KEY: "letters, digits, '-', '_' and '.'"},
    )
