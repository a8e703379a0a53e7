"""Protobuf messages become the same rows one by one and in bulk, and those that Google's own library reads, however odd
their bytes are.

FUZZED_SCHEMAS says of how many schemas (8), FUZZED_MESSAGES how many of each (200), FUZZED_SEED which (1).
"""

from __future__ import annotations

import os
import pickle
import re
from collections import Counter
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from bucketingest.decode.protobuf.decoder import ProtobufDecoder
from bucketingest.decode.protobuf.descriptors import read_message
from bucketingest.decode.protobuf.exact import ExactDecoder
from bucketingest.decode.rows import Undecodable, batch
from support.decoding.protobuf_messages import ProtobufMessages, Schema
from support.decoding.protobuf_rows import expected_row, has_left_out, numbers_for_times, plain

SCHEMAS = int(os.environ.get("FUZZED_SCHEMAS", "8"))
MESSAGES = int(os.environ.get("FUZZED_MESSAGES", "200"))
SEED = int(os.environ.get("FUZZED_SEED", "1"))

STRICTER = re.compile(
    r": (wire type \d, which a field of type \w+ cannot have|the enum \w+ has no number -?\d+|a byte that is not UTF-8|"
    r"-?\d+ seconds do not fit into TIMESTAMP)$"
)
"""Why we refuse what Google's library takes: it drops other types, and does not check proto2's texts."""


def exact(decoder: ExactDecoder, columns: pa.Schema, message: bytes) -> Any:
    try:
        row = decoder.decode(message)
    except Undecodable as error:
        return error.describe("byte")
    return plain(numbers_for_times(batch([row], columns))[0])


def of_google(schema: Schema, message: bytes) -> Any:
    found = schema.new()
    try:
        found.ParseFromString(message)
    except DecodeError as error:
        return str(error)
    try:
        if has_left_out(found):
            return "an entry is left out"
        return plain(expected_row(found)) if found.IsInitialized() else "required fields are absent"
    except UnicodeDecodeError:
        return "no text"


def test_every_verdict_and_value_in_bulk_one_by_one_and_of_google() -> None:
    source = ProtobufMessages(SEED)
    seen: Counter[str] = Counter()
    for _ in range(SCHEMAS):
        schema = source.schema()
        message = read_message(schema.text, schema.name)
        decoder = pickle.loads(pickle.dumps(ProtobufDecoder(message)))
        given = source.take(schema, MESSAGES)
        decoded = decoder.decode(pa.array(given, pa.binary()))
        decoded.rows.validate(full=True)
        refused = {each.number: each.why for each in decoded.refused}
        rows = iter(numbers_for_times(decoded.rows))
        seen["bulk"] += len(given) - decoded.one_by_one
        for at, value in enumerate(given):
            ours = refused[at] if at in refused else plain(next(rows))
            if value is None:
                assert ours == ""
                continue
            one = exact(ExactDecoder(message), decoder.schema, value)
            assert ours == one, (schema.files, value)
            google = of_google(schema, value)
            if isinstance(ours, str):
                seen["refused"] += 1
                assert isinstance(google, str) or STRICTER.search(f": {ours}"), (ours, google, value)
            elif isinstance(google, str):
                seen["google refuses"] += 1
                assert "corrupt" in google or "left out" in google, (google, value)
            else:
                seen["rows"] += 1
                assert ours == google, (schema.files, value)
    total = SCHEMAS * MESSAGES
    assert seen["rows"] > total // 3
    assert seen["refused"] > total // 10
    assert seen["bulk"] > total // 3, "the decoder of many messages has not been compared"
    assert seen["google refuses"] < total // 20, "numbers of more than 64 bits, which Java takes"
