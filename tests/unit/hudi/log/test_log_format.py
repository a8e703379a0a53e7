import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.errors import CorruptLog
from bucketingest.hudi.log.format import CONTENT_BYTES_MAX, BlockType, Buffer, HeaderKey, frame_block, read_blocks
from support.tables.fixtures import JAVA_TABLES, log_files

HEADERS = {HeaderKey.SCHEMA: '{"type":"record"}', HeaderKey.INSTANT_TIME: "20261121081714512"}


def joined(block: list[Buffer]) -> bytes:
    return b"".join(bytes(part) for part in block)


BLOCK = joined(frame_block(BlockType.PARQUET, HEADERS, [b"content"]))


@pytest.mark.parametrize("table", JAVA_TABLES)
def test_a_block_framed_again_has_the_bytes_hudi_wrote(table: str) -> None:
    files = dict(log_files(table))
    assert files
    for path, data in files.items():
        again = [joined(frame_block(b.type, b.headers, [b.content])) for b in read_blocks(data, source=path)]
        assert b"".join(again) == data


@given(
    st.lists(
        st.tuples(
            st.sampled_from(BlockType),
            st.dictionaries(st.sampled_from(HeaderKey), st.text()),
            st.lists(st.binary(max_size=9)),
        )
    )
)
def test_what_is_framed_is_read(blocks: list[tuple[BlockType, dict[HeaderKey, str], list[bytes]]]) -> None:
    read = list(read_blocks(b"".join(joined(frame_block(*block)) for block in blocks)))
    assert [(b.type, b.headers, bytes(b.content)) for b in read] == [(t, h, b"".join(c)) for t, h, c in blocks]


@given(st.integers(1, len(BLOCK) - 1))
def test_a_torn_last_block_is_corrupt_and_those_before_it_are_read(kept: int) -> None:
    blocks = read_blocks(BLOCK + BLOCK[:kept], source="us/.f.log.1_0-0-0")
    assert bytes(next(blocks).content) == b"content"
    with pytest.raises(CorruptLog, match=rf"us/\.f\.log\.1_0-0-0: the block at byte {len(BLOCK)} "):
        next(blocks)


@pytest.mark.parametrize("change", [1, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("position", range(len(BLOCK)))
def test_a_changed_byte_is_found_unless_it_is_content_or_a_header_value(position: int, change: int) -> None:
    changed = BLOCK[:position] + bytes([BLOCK[position] ^ change]) + BLOCK[position + 1 :]
    try:
        (block,) = read_blocks(changed)
    except CorruptLog:
        return
    assert (block.type, block.headers, bytes(block.content)) != (BlockType.PARQUET, HEADERS, b"content")


@pytest.mark.parametrize(
    ("position", "value", "said"),
    [
        (0, b"#HUDO#", "starts with b'#HUDO#'"),
        (14, struct.pack(">i", 2), "log format version 2"),
        (18, struct.pack(">i", 9), "unknown block type 9"),
        (26, struct.pack(">i", 77), r"unknown header keys \[77\]"),
        (22, struct.pack(">i", -1), "has -1 headers or footers"),
        (len(BLOCK) - 12, struct.pack(">i", -1), "has -1 headers or footers"),
        (len(BLOCK) - 8, struct.pack(">q", 5), "lengths that disagree"),
    ],
)
def test_the_message_says_what_is_wrong(position: int, value: bytes, said: str) -> None:
    with pytest.raises(CorruptLog, match=said):
        list(read_blocks(BLOCK[:position] + value + BLOCK[position + len(value) :]))


def test_content_buffers_are_handed_on_without_copying() -> None:
    content = pa.py_buffer(b"x" * 1000)
    assert frame_block(BlockType.PARQUET, HEADERS, [content])[1] is content


def test_content_is_a_view_of_the_file() -> None:
    data = bytearray(BLOCK)
    (block,) = read_blocks(data)
    data[BLOCK.index(b"content")] = ord("C")
    assert bytes(block.content) == b"Content"


def test_content_that_no_java_array_holds_is_refused() -> None:
    view = memoryview(bytearray(1 << 20))
    with pytest.raises(ValueError, match=f"over Hudi's limit of {CONTENT_BYTES_MAX}; flush earlier"):
        frame_block(BlockType.PARQUET, HEADERS, [view] * 2048)


def test_the_instant_of_a_block_without_one_is_empty() -> None:
    (block,) = read_blocks(joined(frame_block(BlockType.DELETE, {}, [])))
    assert block.instant_time == ""
