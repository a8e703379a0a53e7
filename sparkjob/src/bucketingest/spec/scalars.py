"""The scalar types of the spec, so that a path or a duration has one pattern in Python and in the CRD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict
from pydantic_core import PydanticCustomError, core_schema

from bucketingest.spec.quantity import (
    CORES_PATTERN,
    DURATION_PATTERN,
    QUANTITY_PATTERN,
    format_cores,
    format_duration,
    format_quantity,
    parse_cores,
    parse_duration,
    parse_quantity,
)

ALLOWED_KEY: Final = "x-allowed"
"""Key in the JSON schema that says in words what a value may be; for messages only, never in the CRD."""

_SEGMENT = r"[^/?#*\x00-\x1f\x7f]+"
LOCATION_PATTERN: Final = (
    rf"^(file://|(s3|s3a|gs|az)://[a-z0-9][a-z0-9._-]*|abfss://[a-z0-9$][a-z0-9-]*@[a-z0-9][a-z0-9.-]*)?(/{_SEGMENT})+$"
)
LOCATION_WORDS: Final = (
    "an absolute local path or a URL with the scheme file, s3, s3a, gs, abfss or az, "
    "with a path and without a slash at its end, such as s3://lake/orders"
)


def _words(allowed: str) -> dict[str, Any]:
    return {ALLOWED_KEY: allowed}


Location = Annotated[str, Field(pattern=LOCATION_PATTERN, max_length=1024, json_schema_extra=_words(LOCATION_WORDS))]
Column = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        max_length=128,
        json_schema_extra=_words("a column name of letters, digits and _, at most 128 characters"),
    ),
]
Sql = Annotated[str, Field(min_length=1, max_length=16384)]
SchemaText = Annotated[str, Field(min_length=1, max_length=262144)]
OptionValue = Annotated[str, Field(max_length=8192)]
SmallText = Annotated[str, Field(min_length=1, max_length=253)]
Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]


@dataclass(frozen=True, slots=True)
class _Written:
    """A value that is written as text in YAML and JSON, and is a number or a length of time in Python."""

    pattern: str
    max_length: int
    read: Callable[[str], Any]
    """Raises ValueError, also for a value out of its limits."""
    write: Callable[[Any], str]
    words: str
    """What is allowed."""
    rule: str
    """The limits in CEL."""
    min_length: int = 1

    def _read(self, value: object) -> Any:
        if not isinstance(value, str):
            raise PydanticCustomError("written_value", "must be text")
        try:
            return self.read(value)
        except ValueError:
            raise PydanticCustomError("written_value", "is not well written or out of range") from None

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                self.write, return_schema=core_schema.str_schema(), when_used="json"
            ),
        )

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": self.pattern,
            "minLength": self.min_length,
            "maxLength": self.max_length,
            ALLOWED_KEY: self.words,
            "x-kubernetes-validations": [{"rule": self.rule, "message": f"must be {self.words}"}],
        }


def _within(read: Callable[[str], Any], at_least: str, at_most: str) -> Callable[[str], Any]:
    low, high = read(at_least), read(at_most)

    def within(text: str) -> Any:
        value = read(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return within


def duration_text(at_least: str, at_most: str) -> _Written:
    """Marks a `timedelta` written as a Kubernetes duration, with limits that both Python and CEL check."""
    return _Written(
        DURATION_PATTERN,
        32,
        _within(parse_duration, at_least, at_most),
        format_duration,
        f"a duration from {at_least} to {at_most}, such as 30s, 5m or 1h30m",
        f"duration(self) >= duration('{at_least}') && duration(self) <= duration('{at_most}')",
        min_length=2,  # the pattern alone would accept the empty text
    )


def trigger_text(at_most: str) -> _Written:
    """Marks a micro-batch trigger: a `timedelta`, zero included, or the word `once`."""
    time = duration_text("0s", at_most)
    return replace(
        time,
        pattern=rf"^once$|{DURATION_PATTERN}",
        read=lambda text: text if text == "once" else time.read(text),
        write=lambda value: value if isinstance(value, str) else format_duration(value),
        words=f"once, or {time.words}",
        rule=f"self == 'once' || duration(self) <= duration('{at_most}')",
    )


def bytes_text(at_least: str, at_most: str) -> _Written:
    """Marks a number of bytes written as a Kubernetes quantity, such as `256Mi`."""
    read = _within(parse_quantity, at_least, at_most)
    words = f"an amount of memory, such as 256Mi or 2Gi, from {at_least} to {at_most}"
    return _Written(QUANTITY_PATTERN, 24, read, format_quantity, words, _quantity_within(at_least, at_most))


def cores_text(at_least: str, at_most: str) -> _Written:
    """Marks thousandths of a CPU core written as Kubernetes does, such as `2` or `500m`."""
    read = _within(parse_cores, at_least, at_most)
    words = f'a number of CPU cores as text, such as "2" or "500m", from {at_least} to {at_most}'
    return _Written(CORES_PATTERN, 12, read, format_cores, words, _quantity_within(at_least, at_most))


def _quantity_within(least: str, most: str) -> str:
    return f"quantity(self).compareTo(quantity('{least}')) >= 0 && quantity(self).compareTo(quantity('{most}')) <= 0"
