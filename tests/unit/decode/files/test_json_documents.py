"""JSON files: all documents of a line or none of it, whatever is between them and wherever the file is cut."""

from __future__ import annotations

import itertools
import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.decode.files.json_documents import JsonReader, documents_in
from bucketingest.decode.files.parts import NoRow, Part, Piece
from bucketingest.decode.files.reader import FileReader

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int64())])


def parts(text: bytes, *cuts: int, **options: bool) -> list[Part]:
    edges = sorted({0, len(text), *cuts})
    reader = FileReader(COLUMNS, JsonReader(COLUMNS, options.get("multi_line", False)))
    return [
        part
        for start, end in itertools.pairwise(edges)
        for part in reader.read(Piece(0, "a.json", start, end), lambda _: pa.BufferReader(text))
    ]


def ids(found: list[Part]) -> list[str]:
    return [value for part in found for value in part.rows["id"].to_pylist()]


def refused(found: list[Part]) -> list[NoRow]:
    return [each for part in found for each in part.refused]


def test_documents_one_behind_the_other_are_all_rows() -> None:
    together = b"".join(json.dumps({"id": f"{n} }}{{", "n": n}).encode() for n in range(1000))
    assert ids(parts(together)) == [f"{n} }}{{" for n in range(1000)]
    assert ids(parts(b'{"id":"a"} {"id":"b"}\r\n{"id":"c"}\n\n  \n[{"id":"d"}, {"id":"e"}]')) == list("abcde")


def test_a_line_of_which_a_part_is_no_document_is_no_row_as_a_whole() -> None:
    lines = [
        b'{"id":"a"}{"id":',
        b'{"id":"a"} x',
        b'[{"id":"a"}, 2]',
        b'[{"id":"a"}',
        b"no",
        b'{"id":"\xff"}{"id":"b"}',
    ]
    found = parts(b'{"id":"0"}\n' + b"\n".join(lines) + b'\n{"id":"9"}')
    assert ids(found) == ["0", "9"]
    assert [(each.place, each.value) for each in refused(found)] == [
        (f"line {at + 2}", line) for at, line in enumerate(lines)
    ]


def test_a_document_of_a_line_that_is_no_row_is_refused_alone() -> None:
    found = parts(b'{"id":"a"}{"id":"b","n":"many"}{"id":"c"}')
    assert ids(found) == ["a", "c"]
    assert [each.value for each in refused(found)] == [b'{"id":"b","n":"many"}']


def test_over_several_lines_with_multi_line() -> None:
    text = b'\xef\xbb\xbf{\n  "id": "a"\n}\n{"id":\n"b"}\n'
    assert ids(parts(text, multi_line=True)) == ["a", "b"]
    assert ids(parts(b'[\n{"id": "a"},\n{"id": "b"}\n]\n', multi_line=True)) == ["a", "b"]
    assert ids(parts(text)) == [], "each line is then a record"


def test_a_line_that_a_document_goes_on_behind_names_the_option() -> None:
    text = json.dumps([{"id": "a", "n": 1}], indent=2).encode() + b'\n{"id":"b","n":"many"}'
    told = [each.place for each in refused(parts(text)) if "multiLine" in each.why]
    assert told == ["line 1", "line 2", "line 3"]
    assert not any("multiLine" in each.why for each in refused(parts(b'{"id":"a",', multi_line=True)))


@given(
    lines=st.lists(st.sampled_from([b'{"id":"a"}', b'{"id":"b"}{"id":"c"}', b"", b" ", b"\r"]), max_size=8),
    cuts=st.lists(st.integers(0, 100), max_size=4),
    ends=st.booleans(),
)
def test_wherever_a_file_is_cut_each_line_is_in_one_piece(lines: list[bytes], cuts: list[int], ends: bool) -> None:
    text = b"\n".join(lines) + (b"\n" if ends else b"")
    assert ids(parts(text, *(min(cut, len(text)) for cut in cuts))) == ids(parts(text))
    assert len(ids(parts(text))) == text.count(b"{")


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers()), min_size=1), st.text(" \t", max_size=2))
def test_any_documents_are_found(documents: list[dict[str, object]], space: str) -> None:
    texts = [json.dumps(each).encode() for each in documents]
    assert documents_in(space.encode().join(texts)) == texts
    assert documents_in(b"[" + b",".join(texts) + b"]") == texts


def test_an_array_without_documents_has_none() -> None:
    """An export of nothing is no dead letter."""
    assert (documents_in(b" [ ] "), documents_in(b"[,]")) == ([], [b"[,]"])


def test_members_that_the_schema_lacks_are_told_of_once_in_each_piece() -> None:
    text = b'{"id": "a", "n": 1}\nno document\n{"ID": "b", "more": {"x": 1}}{"other": 1, "more": 2}\n'
    assert [part.unknown for part in parts(text)] == [("ID", "more", "other")]
    assert [part.unknown for part in parts(b'{"id": "a"}\n')] == [()]
