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
_NO_TEXT: Final = re.compile(
    r"^Expected `str \| null`, got `(?:int|float|bool)` - at `\$.*?([^.\[\]]+)(?:\[[^\]]*\])*`$"
)
"""With the member's name."""
_NO_WORD: Final = "Invalid enum value "
"""Of text in a DOUBLE, see `_NotFinite`."""
_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_ROWS_MAX: Final = 512
"""So many become columns before others are read: Python looks through all the objects that it has, time and again."""
_NO_UNIT: Final = "a number is no TIMESTAMP: format.timestamps says whether numbers are seconds, millis or micros"
_OTHER_UNIT: Final = "{} is beyond the years 0001 to 9999: is its unit that of format.timestamps?"


class TypedReader:
    """Reads many messages into the columns of a schema, and none that is doubtful."""

    def __init__(self, schema: pa.Schema, unit: int = 0) -> None:
        """`schema`: of types that `columns.read_type` gives; `unit`: see `times.MICROS_OF`."""
        self._schema = schema
        self._unit = unit
        self._names: frozenset[str] = frozenset()
        """Of members that are to be STRING and were something else: no other text is looked at, which is faster."""
        self._decode = _decoder(schema, unit, self._kind_of_text, Decimal)

    def read(self, messages: pa.BinaryArray) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """The rows, and the numbers of their messages, which are in UTF-8."""
        parts, numbers = [batch([], self._schema)], []
        for start in range(0, len(messages), _ROWS_MAX):
            rows = []
            for at, message in enumerate(messages.slice(start, _ROWS_MAX).to_pylist(), start):
                if len(message) > LEVELS_MAX and is_too_deep(message):
                    continue
                try:
                    rows.append(self._row(message))
                except (msgspec.DecodeError, InvalidOperation):  # the latter: an exponent of very many digits
                    continue
                numbers.append(at)
            parts.append(batch(rows, self._schema))
        return pa.Table.from_batches(parts), np.array(numbers, np.int64)

    def _row(self, message: bytes) -> dict[str, Any]:
        """Again with what the message teaches: whether it has a row depends on none before it."""
        while True:
            try:
                row: dict[str, Any] = self._decode(message)
            except msgspec.DecodeError as error:
                found = _NO_TEXT.search(str(error))
                if found is None or found[1] in self._names:
                    raise
                self._names |= {found[1]}
                self._decode = _decoder(self._schema, self._unit, self._kind_of_text, _Number)
            else:
                return row

    def _kind_of_text(self, name: str) -> Any:
        return _TEXT if name in self._names else str


class ExactDecoder:
    """Decodes single messages into rows of a schema."""

    def __init__(self, schema: pa.Schema, unit: int = 0) -> None:
        """`unit`: see `times.MICROS_OF`."""
        self._decode = _decoder(schema, unit, lambda _: str, _Number)
        self._decode_verbatim = _decoder(schema, unit, lambda _: msgspec.Raw, _Number)

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
        if why.startswith(_NO_WORD):
            why = f"a number (DOUBLE) is expected, not {why.removeprefix(_NO_WORD)}"
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


def _decoder(
    schema: pa.Schema, unit: int, kind_of_text: Callable[[str], Any], number: Callable[[str], Any]
) -> Callable[[bytes], Any]:
    """Decodes messages as rows. `kind_of_text`: of STRING, in a member of this name. `number`: see `_Read`."""

    def kind(wanted: pa.DataType, name: str) -> Any:
        if pa.types.is_struct(wanted):
            return members([wanted.field(at) for at in range(wanted.num_fields)])
        if pa.types.is_list(wanted):
            return list[kind_or_null(wanted.value_type, name)]  # type: ignore[misc]
        if pa.types.is_map(wanted):
            return dict[str, kind_or_null(wanted.item_type, name)]  # type: ignore[misc]
        if pa.types.is_decimal(wanted):
            return _Read.by(_decimal_reader(wanted))
        if pa.types.is_timestamp(wanted):
            return _Read.by(partial(_timestamp, unit))
        return _KINDS[wanted] if wanted in _KINDS else kind_of_text(name)

    def kind_or_null(wanted: pa.DataType, name: str) -> Any:
        found = kind(wanted, name)
        return found if found is msgspec.Raw else found | None

    def members(fields: list[pa.Field]) -> Any:
        return TypedDict("object", {field.name: kind_or_null(field.type, field.name) for field in fields}, total=False)  # type: ignore[operator]

    return msgspec.json.Decoder(members(list(schema)), dec_hook=_Read.read, float_hook=number).decode


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


_NUMBERS: Final = {int, _Number, Decimal}
_WORDS: Final = {str(each._value_): each for each in _NotFinite}


class _Read(type):
    """A type that msgspec does not know: values are made of text (`str`), whole numbers, and others as `_Number` or,
    which is faster, as Decimal.

    As each value is one of these types for `isinstance`, msgspec takes what a function returns.
    """

    function: Callable[[Any], Any]

    @classmethod
    def by(cls, function: Callable[[Any], Any]) -> _Read:
        """Read by a function that raises ValueError; msgspec says where."""
        return cls("value", (), {"function": staticmethod(function)})

    @staticmethod
    def read(kind: Any, value: Any) -> Any:
        """For msgspec."""
        return kind.function(value)

    __instancecheck__ = id  # type: ignore[assignment]  # true of everything, and no function of Python: it is quicker


def _text(value: Any) -> str:
    """STRING, if the value is surely what the message has there."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value:  # -0 is 0
        return str(value)
    raise ValueError


def _decimal_reader(wanted: pa.Decimal128Type) -> Callable[[Any], Decimal]:
    name = f"DECIMAL({wanted.precision},{wanted.scale})"
    step = Decimal(1).scaleb(-wanted.scale)
    context = Context(wanted.precision, ROUND_HALF_UP, MIN_EMIN, MAX_EMAX, traps=[InvalidOperation])
    fit = context.quantize

    def read(value: Any) -> Decimal:
        if type(value) not in _NUMBERS and not (type(value) is str and _DECIMAL_TEXT.fullmatch(value)):
            raise ValueError(f"a number ({name}) is expected, not {_shown(value)}")
        try:
            return fit(value if type(value) is Decimal else Decimal(value), step)
        except InvalidOperation:
            raise ValueError(f"{_shown(value)} does not fit into {name}") from None

    return read


def _float(value: Any) -> float:
    """FLOAT, of the text: by way of a double it would be rounded twice."""
    if type(value) is str and value in _WORDS:
        return _WORDS[value]
    if type(value) not in _NUMBERS:
        raise ValueError(f"a number (FLOAT) is expected, not {_shown(value)}")
    number: float = pa.scalar(str(value)).cast(pa.float32()).as_py()
    if math.isinf(number):
        raise ValueError(f"{_shown(value)} does not fit into FLOAT")
    return number


def _timestamp(unit: int, value: Any) -> int:
    if type(value) not in _NUMBERS:
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
    text = str(value) if type(value) in _NUMBERS else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _whole(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]


_TEXT: Final = _Read.by(_text)
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
