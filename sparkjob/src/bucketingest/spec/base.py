"""What all models of the spec have in common: frozen, no unknown fields, an explicit null counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel


class SpecModel(BaseModel):
    """A part of a BucketIngest. Fields are snake_case in Python and camelCase in YAML and JSON."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, alias_generator=to_camel, validate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        """Treat `field:` without a value as an absent field, as the Kubernetes API server does."""
        if isinstance(data, dict):
            return {name: value for name, value in data.items() if value is not None}
        return data

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The model of JSON values under their YAML names: those of Python are unknown fields there. Raises pydantic's
        ValidationError.
        """
        return cls.model_validate(document, by_alias=True, by_name=False)

    def to_document(self, *, defaults: bool = True) -> dict[str, Any]:
        """The model as JSON values under its YAML names, without absent optional fields. Without fields that have their
        default another version can read the document: it names no field that nobody uses.
        """
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=not defaults)
