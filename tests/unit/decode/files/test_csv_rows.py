"""CSV files: names decide which column is which, values are what was written, and what is none has its place."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bucketingest.decode.files import csv_rows, lines
from bucketingest.decode.files.csv_rows import CsvReader, Text
from bucketingest.decode.files.parts import BadFile, Part, Piece
from bucketingest.decode.files.reader import FileReader

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32())])
TEXTS = pa.schema([("first", pa.string()), ("second", pa.string())])


def parts(text: bytes, columns: pa.Schema = COLUMNS, **options: Any) -> list[Part]:
    reader = FileReader(columns, CsvReader(columns, **options))
    return list(reader.read(Piece(0, "a.csv", 0, len(text)), lambda _: pa.BufferReader(text)))


def rows(found: list[Part]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for part in found for row in part.rows.to_pylist()]


def refused(found: list[Part]) -> list[tuple[str, str, bytes]]:
    return sorted(each for part in found for each in part.refused)


def test_the_names_of_the_header_say_which_column_is_which() -> None:
    text = b"\xef\xbb\xbfN, more ,ID\n1,x,a\n2,y,b\n"
    assert rows(parts(text, has_header=True)) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"a,1\nb,2\n", "line 1: the header lacks id, n; it is a, 1"),
        (b"id,n,ID\n", "line 1: the header has id more than once"),
        (b"id\n", "line 1: the header lacks n"),
        (b"id,\xff\n", "line 1: the header cannot be read"),
    ],
)
def test_a_header_that_does_not_fit_refuses_the_file(text: bytes, why: str) -> None:
    with pytest.raises(BadFile, match=why):
        parts(text, has_header=True)


def test_without_a_header_the_first_line_is_a_row() -> None:
    assert rows(parts(b"a,1\nb,2")) == [("a", 1), ("b", 2)]
    assert rows(parts(b"")) == rows(parts(b"", has_header=True)) == rows(parts(b"\n", has_header=True)) == []


@pytest.mark.parametrize("text", [b"id,n\na,1\n", b'"N", ID\n', b"n,id"])
def test_a_header_that_nobody_has_told_of_refuses_the_file(text: bytes) -> None:
    """Else it would be a row, and columns in another order would be swapped."""
    with pytest.raises(BadFile, match=r"line 1 has the names of the columns: set options\.header"):
        parts(text)
    assert rows(parts(b"id\n", pa.schema([("id", pa.string())]))) == [("id",)], "one word may be a value"


def test_names_of_the_columns_are_a_row_where_the_option_says_so() -> None:
    texts = pa.schema([("id", pa.string()), ("n", pa.string())])
    assert rows(parts(b"id,n\na,1\n", texts, has_header=False)) == [("id", "n"), ("a", "1")]


def test_quotes_are_as_rfc_4180_has_them_and_nothing_is_null_unless_in_quotes() -> None:
    assert rows(parts(b'"say ""hi""",1\r\n"a\nb",2\r\n"",3\r\n,4\r\n')) == [
        ('say "hi"', 1),
        ("a\nb", 2),
        ("", 3),
        (None, 4),
    ]
    assert rows(parts(b'"say \\"hi\\"";1\nNULL;2', separator=";", escape="\\", null="NULL")) == [
        ('say "hi"', 1),
        (None, 2),
    ]


def test_what_is_no_row_has_its_place_and_its_text() -> None:
    found = parts(b"id,n\na,1\nb,many\nc\nd,4,5\ncaf\xe9,6\ne,2147483648\nf,7\n", has_header=True)
    assert rows(found) == [("a", 1), ("f", 7)]
    assert refused(found) == [
        ("record 2", "column n: is no INT", b"b,many"),
        ("record 3", "has 1 values, not 2", b"c"),
        ("record 4", "has 3 values, not 2", b"d,4,5"),
        ("record 5", "column id: a byte that is not UTF-8; see options.encoding", b"caf\xe9,6"),
        ("record 6", "column n: is no INT", b"e,2147483648"),
    ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("record", [b"caf\xe9", b"caf\xe9,2,3"])
def test_bytes_that_are_no_text_in_a_record_of_another_number_of_values_refuse_the_file(record: bytes) -> None:
    """PyArrow does not show such a record."""
    with pytest.raises(
        BadFile, match=r"Row #2: Expected 2 columns, .*, and bytes that are not UTF-8; see options\.enc"
    ):
        parts(b"a,1\n%b\nb,2\n" % record)


def test_another_encoding_is_read_as_it_is_or_refuses_the_file() -> None:
    text = "café,1\ncafè,2\n"
    assert rows(parts(text.encode("latin-1"), encoding="iso8859-1")) == [("café", 1), ("cafè", 2)]
    assert rows(parts(text.encode("utf-16"), encoding="utf-16")) == [("café", 1), ("cafè", 2)]
    with pytest.raises(BadFile, match="near byte 4: bytes that are not ascii"):
        parts(text.encode("latin-1"), encoding="ascii")


@pytest.mark.parametrize("block", [64, 4 * 1024**2])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a,b\nc,"d', 2),
        ('a,b\nc,"d\ne,f\n', 2),
        ('c,"d\n' + "e,f\n" * 50, 1),
        ("a,b\n" * 50 + 'c,"d\ne,f', 51),
        ('"a\na","b"\nc,"d\n' + "e,f\n" * 50, 3),
    ],
)
def test_a_quote_that_is_never_closed_refuses_the_file(
    monkeypatch: pytest.MonkeyPatch, block: int, text: str, line: int
) -> None:
    """Else the rest of the file would be a value."""
    monkeypatch.setattr(csv_rows, "_BLOCK_BYTES", block)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    with pytest.raises(BadFile, match=f"line {line}: .*quote .* not closed"):
        parts(text.encode(), TEXTS)


def test_a_record_that_is_too_long_refuses_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 100)
    for text, line in ((b"a,b\n" + b"c" * 400, "line 2: "), (b'a,b\n"c"' + b',"d"' * 100, "")):
        with pytest.raises(BadFile, match=f"is no CSV: {line}a record of more than 4 MiB"):
            parts(text, TEXTS)


@pytest.mark.parametrize("block", [16, 4 * 1024**2])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"a"b,c\n', 1),
        ('a,b\na,"b" \n', 2),
        ('"say "hi" there",1\n', 1),
        ('"a\nb",c\nd,"e""f"g"\n', 3),
        ('a"b,c\n"a"b,c', 2),
    ],
)
def test_text_behind_the_quote_that_ends_a_value_refuses_the_file(
    monkeypatch: pytest.MonkeyPatch, block: int, text: str, line: int
) -> None:
    """Else it would be added to the value without a word."""
    monkeypatch.setattr(csv_rows, "_BLOCK_BYTES", block)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    with pytest.raises(BadFile, match=f"line {line}: text behind the quote"):
        parts(text.encode(), TEXTS)
    for end in ("\n", "\r\n"):
        with pytest.raises(BadFile, match=f"line {line + 1}: text behind the quote"):
            parts(f"first,second{end}{text}".encode(), TEXTS, has_header=True)


@given(pieces=st.lists(st.sampled_from(['""', "a", " ", '"', ",", "\n", "\r\n"]), max_size=25), block=st.integers(1, 9))
def test_text_behind_quotes_is_found_as_pythons_strict_reader_finds_it(pieces: list[str], block: int) -> None:
    data = f"{''.join(pieces)}\n".encode()
    found, expected = "", ""
    try:
        quotes = csv_rows.Quotes(CsvReader(TEXTS), 1)
        for at in range(0, len(data), block):
            quotes.look(data[at : at + block])
        quotes.end()
    except BadFile as error:
        found = str(error)
    try:
        list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except csv.Error as error:
        expected = str(error)
    assert ("behind the quote" in found, "not closed" in found) == ("expected after" in expected, "end" in expected)


def test_with_an_escape_a_doubled_quote_is_text_behind_a_quote() -> None:
    assert rows(parts(b'"a\\"b","\\\\"\n', TEXTS, escape="\\")) == [('a"b', "\\")]
    with pytest.raises(BadFile, match="line 1: text behind the quote"):
        parts(b'"a""b",c\n', TEXTS, escape="\\")
    assert rows(parts(b'"a"b,"c\n', TEXTS, quote="")) == [('"a"b', '"c')]


def test_an_escape_at_the_end_refuses_the_file() -> None:
    with pytest.raises(BadFile, match="is no CSV"):
        parts(b"a,b\\", TEXTS, escape="\\")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_have_any_end(end: str) -> None:
    assert rows(parts(f"id,n{end}a,1{end}b,2".encode(), has_header=True)) == [("a", 1), ("b", 2)]


def several(*texts: bytes) -> list[tuple[int, Part]]:
    reader = FileReader(COLUMNS, CsvReader(COLUMNS, has_header=True))
    pieces = [Piece(number, f"{number}.csv", 0, len(text)) for number, text in enumerate(texts)]
    found = chain.from_iterable(reader.found(each, lambda each: pa.BufferReader(texts[each.number])) for each in pieces)
    return [(piece.number, part) for piece, part in reader.decoded(found)]


def test_records_of_small_files_are_read_together_and_each_is_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    read = CsvReader.together

    def counted(self: CsvReader, waiting: Sequence[Text]) -> list[Part]:
        calls.append(len(waiting))
        return read(self, waiting)

    monkeypatch.setattr(CsvReader, "together", counted)
    texts = [b'id,n\n"0\n",0\n', b"id,n\n1,1\n1\n\n1,x\n1,11", b"id,n\n", b"", b"id,n\r\n\x1e,3\r\nx\r\n"]
    found = several(*texts, b"n,more,id\n5,,b\ny,,c\n")
    assert rows([part for _, part in found]) == [("0\n", 0), ("1", 1), ("1", 11), ("\x1e", 3), ("b", 5)]
    assert [(number, [each[::2] for each in part.refused]) for number, part in found if part.refused] == [
        (1, [("record 2", b"1"), ("record 3", b"1,x")]),
        (4, [("record 2", b"x")]),
        (5, [("record 2", b"y,,c")]),
    ]
    assert [(number, part.unknown) for number, part in found if part.unknown] == [(5, ("more",))]
    assert calls == [4, 1]


def test_of_files_that_are_read_together_the_damaged_one_is_named() -> None:
    with pytest.raises(BadFile, match="is no CSV") as caught:
        several(b"id,n\na,1\n", b'id,n\nb,"2\n', b"id,n\nc,3\n")
    assert caught.value.number == 1


def test_a_record_that_looks_like_the_mark_behind_a_file_is_a_record() -> None:
    found = several(b"id,n\na,1\n\x1e\x1e,,\nb,2\n", b"id,n\nc,3\n")
    assert rows([part for _, part in found]) == [("a", 1), ("b", 2), ("c", 3)]
    assert [(number, each.place) for number, part in found for each in part.refused] == [(0, "record 2")]
    with pytest.raises(BadFile, match="is no CSV"):
        several(b'id,n\n\x1e\x1e,,\n"b,2\n')


@given(st.lists(st.tuples(st.text(), st.text()), max_size=20))
def test_what_is_written_as_csv_is_read_as_it_was(table: list[tuple[str, str]]) -> None:
    table = [tuple(cell.replace("\r", "").encode("utf-8", "ignore").decode() for cell in row) for row in table]  # type: ignore[misc]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    assert rows(parts(text.getvalue().encode(), TEXTS)) == table


@given(
    table=st.lists(
        st.tuples(st.sampled_from(["a", 'q"q', "l\nl", "r\r\nr", "a,b"]), st.sampled_from(["", "b"])), max_size=9
    ),
    end=st.sampled_from(["\n", "\r\n"]),
    block=st.integers(16, 60),
)
@example(table=[("a", "b")] * 23, end="\r\n", block=19)  # a line feed alone is a block
@example(
    table=[("a" * 11, "b"), (f"{'a' * 16}\r\n", "b")], end="\n", block=16
)  # a block begins with a value's line feed
def test_wherever_the_blocks_of_a_file_end_its_rows_are_read(
    table: list[tuple[str, str]], end: str, block: int
) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK_BYTES", block)
        found = rows(parts(text.getvalue().encode(), TEXTS, null="null"))
    assert found == table
