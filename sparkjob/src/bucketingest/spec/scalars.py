"""The scalar types of the spec, so that a path or a duration has one pattern in Python and in the CRD."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final

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

    pattern: ClassVar[str]
    max_length: ClassVar[int]
    min_length: ClassVar[int] = 1

    def _parse(self, text: str) -> Any:
        raise NotImplementedError

    def _format(self, value: Any) -> str:
        raise NotImplementedError

    def _words(self) -> str:
        raise NotImplementedError

    def _cel(self) -> list[dict[str, str]]:
        return []

    def _read(self, value: object) -> Any:
        if not isinstance(value, str):
            raise PydanticCustomError("written_value", "must be text")
        try:
            return self._parse(value)
        except ValueError:
            raise PydanticCustomError("written_value", "is not well written or out of range") from None

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                self._format, return_schema=core_schema.str_schema(), when_used="json"
            ),
        )

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "string",
            "pattern": self.pattern,
            "minLength": self.min_length,
            "maxLength": self.max_length,
            ALLOWED_KEY: self._words(),
        }
        if rules := self._cel():
            schema["x-kubernetes-validations"] = rules
        return schema


def _duration_within(text: str, at_least: str, at_most: str) -> timedelta:
    duration = parse_duration(text)
    if not parse_duration(at_least) <= duration <= parse_duration(at_most):
        raise ValueError(text)
    return duration


def _duration_words(at_least: str, at_most: str) -> str:
    return f"a duration from {at_least} to {at_most}, such as 30s, 5m or 1h30m"


@dataclass(frozen=True, slots=True)
class DurationText(_Written):
    """Marks a `timedelta` written as a Kubernetes duration, with limits that both Python and CEL check."""

    pattern: ClassVar[str] = DURATION_PATTERN
    max_length: ClassVar[int] = 32
    min_length: ClassVar[int] = 2  # the pattern alone would accept the empty text

    at_least: str
    at_most: str

    def _parse(self, text: str) -> timedelta:
        return _duration_within(text, self.at_least, self.at_most)

    def _format(self, value: timedelta) -> str:
        return format_duration(value)

    def _words(self) -> str:
        return _duration_words(self.at_least, self.at_most)

    def _cel(self) -> list[dict[str, str]]:
        rule = f"duration(self) >= duration('{self.at_least}') && duration(self) <= duration('{self.at_most}')"
        return [{"rule": rule, "message": f"must be {self._words()}"}]


@dataclass(frozen=True, slots=True)
class TriggerText(_Written):
    """Marks a micro-batch trigger: a `timedelta`, zero included, or the word `once`."""

    pattern: ClassVar[str] = rf"^once$|{DURATION_PATTERN}"
    max_length: ClassVar[int] = 32
    min_length: ClassVar[int] = 2

    at_most: str

    def _parse(self, text: str) -> timedelta | str:
        return text if text == "once" else _duration_within(text, "0s", self.at_most)

    def _format(self, value: timedelta | str) -> str:
        return value if isinstance(value, str) else format_duration(value)

    def _words(self) -> str:
        return f"once, or {_duration_words('0s', self.at_most)}"

    def _cel(self) -> list[dict[str, str]]:
        rule = f"self == 'once' || duration(self) <= duration('{self.at_most}')"
        return [{"rule": rule, "message": f"must be {self._words()}"}]


@dataclass(frozen=True, slots=True)
class _Number(_Written):
    """A whole number with a parser, a formatter and limits."""

    at_least: str
    at_most: str
    what: ClassVar[str]
    read: ClassVar[Callable[[str], int]]
    write: ClassVar[Callable[[int], str]]

    def _parse(self, text: str) -> int:
        number = type(self).read(text)
        if not type(self).read(self.at_least) <= number <= type(self).read(self.at_most):
            raise ValueError(text)
        return number

    def _format(self, value: int) -> str:
        return type(self).write(value)

    def _words(self) -> str:
        return f"{self.what} from {self.at_least} to {self.at_most}"

    def _cel(self) -> list[dict[str, str]]:
        rule = (
            f"quantity(self).compareTo(quantity('{self.at_least}')) >= 0 && "
            f"quantity(self).compareTo(quantity('{self.at_most}')) <= 0"
        )
        return [{"rule": rule, "message": f"must be {self._words()}"}]


@dataclass(frozen=True, slots=True)
class BytesText(_Number):
    """Marks a number of bytes written as a Kubernetes quantity, such as `256Mi`."""

    pattern: ClassVar[str] = QUANTITY_PATTERN
    max_length: ClassVar[int] = 24
    what: ClassVar[str] = "an amount of memory, such as 256Mi or 2Gi,"
    read: ClassVar[Callable[[str], int]] = staticmethod(parse_quantity)
    write: ClassVar[Callable[[int], str]] = staticmethod(format_quantity)


@dataclass(frozen=True, slots=True)
class CoresText(_Number):
    """Marks thousandths of a CPU core written as Kubernetes does, such as `2` or `500m`."""

    pattern: ClassVar[str] = CORES_PATTERN
    max_length: ClassVar[int] = 12
    what: ClassVar[str] = 'a number of CPU cores as text, such as "2" or "500m",'
    read: ClassVar[Callable[[str], int]] = staticmethod(parse_cores)
    write: ClassVar[Callable[[int], str]] = staticmethod(format_cores)
