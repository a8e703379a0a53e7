"""What messages say of their types is the first part of each, the same bytes in nearly all, and longer than all else.
It is cut off before messages are joined to blocks: so these bytes are compared once, and never copied or parsed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.debezium.usual import begins, slices, text_of
from bucketingest.decode.json.doubts import UNREADABLE
from bucketingest.decode.kafka.message import VALUE

HEAD: Final = "head"
"""Column of what was cut off at the beginning of each message, with `}` at its end; null for a message as it came."""
_FORM: Final = b'{"schema":%s,"payload":'
_KIND: Final = pa.dictionary(pa.int32(), pa.binary())
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def with_heads_apart(messages: pa.RecordBatch) -> pa.RecordBatch:
    """The messages with `HEAD` as a further column."""
    values, heads = _cut(messages.column(VALUE))
    columns = dict(zip(messages.schema.names, messages.columns, strict=True))
    return pa.RecordBatch.from_pydict(columns | {VALUE: values, HEAD: heads})


@dataclass(frozen=True, slots=True)
class Messages:
    """A block of messages, most of which are without a head, the same for all."""

    texts: pa.BinaryArray
    head: bytes
    has_head: npt.NDArray[np.bool_]
    """Which of the messages are to be read behind `head`; the others are whole, with or without a schema."""

    @classmethod
    def of(cls, texts: pa.BinaryArray, heads: pa.DictionaryArray | None) -> Self:
        """`heads`: of the texts, None if they are whole messages."""
        if heads is None:
            texts, heads = _cut(texts)
        if heads.null_count == len(heads):
            return cls(texts, b"", np.zeros(len(texts), np.bool_))
        codes = pc.fill_null(heads.indices, -1).to_numpy(zero_copy_only=False)
        code = int(codes.max())  # of the newest, if there are several
        head = heads.dictionary[code].as_py()
        if others := np.flatnonzero((codes >= 0) & (codes != code)).tolist():
            whole = {at: _whole(heads[at].as_py(), texts[at].as_py()) for at in others}
            texts = pa.array([whole.get(at, text) for at, text in enumerate(texts.to_pylist())], pa.binary())
        return cls(texts, head, codes == code)

    @property
    def schema(self) -> bytes:
        """What the head says of types, as JSON; empty if there is none."""
        return self.head[len(_FORM.split(b"%s")[0]) : -len(_FORM.split(b"%s")[1])]

    def whole(self, numbers: npt.NDArray[np.int64]) -> list[bytes | None]:
        """These messages as they came."""
        texts = self.texts if len(numbers) == len(self.texts) else self.texts.take(pa.array(numbers))
        pairs = zip(texts.to_pylist(), self.has_head[numbers].tolist(), strict=True)
        return [_whole(self.head, text) if has_head else text for text, has_head in pairs]


def _whole(head: bytes, text: bytes) -> bytes:
    return b"%s%s}" % (head, text)


def _cut(messages: pa.BinaryArray) -> tuple[pa.BinaryArray, pa.DictionaryArray]:
    head = _head_of(messages)
    if not head:
        return messages, pa.nulls(len(messages), _KIND)
    data, offsets = text_of(messages)
    starts, ends = offsets[:-1], offsets[1:]
    cut = begins(messages, head)
    cut &= np.frombuffer(data, np.uint8).take(ends - 1, mode="clip") == ord("}")
    missing = messages.is_null().to_numpy(zero_copy_only=False) if messages.null_count else None
    texts = slices(data, starts + cut * len(head), ends - cut, missing)
    codes = pa.array(np.zeros(len(messages), np.int32), mask=~cut)
    return texts, pa.DictionaryArray.from_arrays(codes, pa.array([head], pa.binary()))


def _head_of(messages: pa.BinaryArray) -> bytes:
    """What the first message begins with; empty if it says nothing of its types."""
    first = next((each.as_py() for each in messages if each.is_valid), b"")
    try:
        members = _members(first)
    except UNREADABLE:
        return b""
    if set(members) != {"schema", "payload"}:
        return b""
    head = _FORM % bytes(members["schema"])
    return head if first.startswith(head) else b""
