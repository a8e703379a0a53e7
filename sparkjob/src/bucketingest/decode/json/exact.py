"""One message after the other, with msgspec and types that are made from the columns: what a block of messages cannot
be trusted with. Rows in bulk of those that have usual values, and the judge of every single one.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Annotated, Any, Final, Self, TypedDict, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.json.doubts import LEVELS_MAX, is_too_deep
from bucketingest.decode.json.times import parse_date, parse_timestamp, timestamp_of_number
from bucketingest.decode.rows import Undecodable, batch

_PLACE: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_NO_UNIT: Final = "a number is no TIMESTAMP: format.timestamps says whether numbers are seconds, millis or micros"
_OTHER_UNIT: Final = "{} is beyond the years 0001 to 9999: is its unit that of format.timestamps?"


class TypedReader:
    """Reads many messages into the columns of a schema, and none that is doubtful."""

    def __init__(self, schema: pa.Schema, unit: int = 0) -> None:
        """`schema`: of types that `columns.read_type` gives; `unit`: see `times.MICROS_OF`."""
        self._schema = schema
        self._decoders = [_decoder(schema, unit, text) for text in (str, _Read.by(_text))]

    def read(self, messages: pa.BinaryArray) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """The rows, and the numbers of their messages, which are in UTF-8."""
        values = messages.to_pylist()
        rows: dict[int, dict[str, Any]] = {}
        left = [at for at, message in enumerate(values) if not is_too_deep(message)]
        for decode in self._decoders:
            failed = []
            for at in left:
                try:
                    rows[at] = decode(values[at])
                except msgspec.DecodeError:
                    failed.append(at)
            left = failed
        numbers = sorted(rows)
        return batch([rows[at] for at in numbers], self._schema), np.array(numbers, np.int64)


class ExactDecoder:
    """Decodes single messages into rows of a schema."""

    def __init__(self, schema: pa.Schema, unit: int = 0) -> None:
        """`unit`: see `times.MICROS_OF`."""
        self._decode = _decoder(schema, unit, str)
        self._decode_verbatim = _decoder(schema, unit, msgspec.Raw)

    def decode(self, message: bytes) -> dict[str, Any]:
        """The row, with values that Arrow's constructor takes. Raises Undecodable."""
        try:
            message.decode()  # msgspec does not look into what it skips
        except UnicodeDecodeError as error:
            raise Undecodable(error.start, "a byte that is not UTF-8") from error
        if is_too_deep(message):
            raise _NoRow(f"more than {LEVELS_MAX} levels")
        try:
            return self._decode(message)
        except msgspec.DecodeError:
            pass  # a STRING may have what is no text
        try:
            row: dict[str, Any] = _written(self._decode_verbatim(message))
        except msgspec.DecodeError as error:
            raise _NoRow(str(error) if message.strip() else "the message is empty") from None
        return row


class _NoRow(Undecodable):
    """What msgspec says, with the field but without a position."""

    def __init__(self, why: str) -> None:
        super().__init__(0, why)

    def describe(self, unit: str) -> str:  # noqa: ARG002
        """See `Undecodable`."""
        why, field = cast(re.Match[str], _PLACE.fullmatch(self.why)).groups()
        return f"field {field}: {why}" if field else str(why)


def _written(value: Any) -> Any:
    """With the text of a STRING: of anything but text and null what the message has there, character by character."""
    match value:
        case msgspec.Raw():
            text = bytes(value)
            return msgspec.json.decode(text) if text[:1] == b'"' or text == b"null" else text.decode()
        case dict():
            return {name: _written(inner) for name, inner in value.items()}
        case list():
            return [_written(inner) for inner in value]
    return value


def _decoder(schema: pa.Schema, unit: int, text: Any) -> Callable[[bytes], Any]:
    def kind(wanted: pa.DataType) -> Any:
        if pa.types.is_struct(wanted):
            return members([wanted.field(at) for at in range(wanted.num_fields)])
        if pa.types.is_list(wanted):
            return list[kind_or_null(wanted.value_type)]  # type: ignore[misc]
        if pa.types.is_map(wanted):
            return dict[str, kind_or_null(wanted.item_type)]  # type: ignore[misc]
        if pa.types.is_decimal(wanted):
            return _Read.by(_decimal_reader(wanted))
        if pa.types.is_timestamp(wanted):
            return _Read.by(partial(_timestamp, unit))
        return _KINDS[wanted]

    def kind_or_null(wanted: pa.DataType) -> Any:
        if pa.types.is_string(wanted):
            return text if text is msgspec.Raw else text | None
        return kind(wanted) | None

    def members(fields: list[pa.Field]) -> Any:
        return TypedDict("object", {field.name: kind_or_null(field.type) for field in fields}, total=False)  # type: ignore[operator]

    return msgspec.json.Decoder(
        members(list(schema)), dec_hook=lambda kind, value: kind.function(value), float_hook=_Number
    ).decode


class _Number(str):
    """A number with a point or an exponent, as it is written."""

    __slots__ = ()


class _NotFinite(float, enum.Enum):
    """Numbers that JSON has no words for, as text."""

    NAN = "NaN"
    INFINITY = "Infinity"
    MINUS_INFINITY = "-Infinity"

    def __new__(cls, text: str) -> Self:
        number = float.__new__(cls, text)
        number._value_ = text
        return number


_WORDS: Final = {str(each._value_): each for each in _NotFinite}


class _Read(type):
    """A type that msgspec does not know: values are made of text (`str`), of whole numbers and of `_Number`s.

    As each value is one of these types for `isinstance`, msgspec takes what a function returns.
    """

    function: Callable[[Any], Any]

    @classmethod
    def by(cls, function: Callable[[Any], Any]) -> _Read:
        """Read by a function that raises ValueError; msgspec says where."""
        return cls("value", (), {"function": staticmethod(function)})

    def __instancecheck__(cls, instance: object) -> bool:
        return True


def _text(value: Any) -> str:
    """STRING, if the value is surely what the message has there."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() if value:
            return str(value)
    raise ValueError


def _decimal_reader(wanted: pa.Decimal128Type) -> Callable[[Any], Decimal]:
    name = f"DECIMAL({wanted.precision},{wanted.scale})"
    step = Decimal(1).scaleb(-wanted.scale)
    context = Context(wanted.precision, ROUND_HALF_UP, MIN_EMIN, MAX_EMAX, traps=[InvalidOperation])

    def read(value: Any) -> Decimal:
        if type(value) is not int and not (isinstance(value, str) and _DECIMAL_TEXT.fullmatch(value)):
            raise ValueError(f"a number ({name}) is expected, not {_shown(value)}")
        try:
            return Decimal(value).quantize(step, context=context)
        except InvalidOperation:
            raise ValueError(f"{_shown(value)} does not fit into {name}") from None

    return read


def _float(value: Any) -> float:
    """FLOAT, of the text: by way of a double it would be rounded twice."""
    if type(value) is str and value in _WORDS:
        return _WORDS[value]
    if type(value) not in {int, _Number}:
        raise ValueError(f"a number (FLOAT) is expected, not {_shown(value)}")
    number: float = pa.scalar(str(value)).cast(pa.float32()).as_py()
    if math.isinf(number):
        raise ValueError(f"{_shown(value)} does not fit into FLOAT")
    return number


def _timestamp(unit: int, value: Any) -> int:
    if type(value) not in {int, _Number}:
        return _time(parse_timestamp, "TIMESTAMP", value)
    if not unit:
        raise ValueError(_NO_UNIT)
    found = timestamp_of_number(value, unit)
    if found is None:
        raise ValueError(_OTHER_UNIT.format(_shown(value)))
    return found


def _time(parse: Callable[[str], int | None], name: str, value: Any) -> int:
    found = parse(value) if type(value) is str else None
    if found is None:
        raise ValueError(f"{_shown(value)} is no {name}")
    return found


def _shown(value: Any) -> str:
    text = str(value) if type(value) in {int, _Number} else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _whole(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]


_KINDS: Final[dict[pa.DataType, Any]] = {
    pa.bool_(): bool,
    pa.binary(): bytes,
    pa.int8(): _whole(8),
    pa.int16(): _whole(16),
    pa.int32(): _whole(32),
    pa.int64(): _whole(64),
    pa.float32(): _Read.by(_float),
    pa.float64(): float | _NotFinite,
    pa.date32(): _Read.by(partial(_time, parse_date, "DATE")),
}
