"""Random folders of files, and what the page about files says becomes of them: a plain model in plain Python, which
shares no code with what it judges.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from fastavro import parse_schema, schemaless_writer, writer

SCHEMA: Final = "id STRING, n INT, place STRING"
COLUMNS: Final = pa.schema([("id", pa.string()), ("n", pa.int32()), ("place", pa.string())])
Row = tuple[str, int | None, str | None]
_NAMES: Final = ("a", "b", "ü", "x y", "100%", "c%20d", "#1", "e+f", "g=h", "'q'", "Z")
_REFUSED: Final = ("n\nl", "\x7f", "caf\udce9")
"""Names that a disk has, and no other storage: with a control character, not of UTF-8."""
_DIRECTORIES: Final = ("", "", "deep/er/", "place=here/", "place=a%2Fb/", "place=__HIVE_DEFAULT_PARTITION__/", "2026/")
_HIDDEN: Final = ("_SUCCESS", ".part", "_temporary/x", ".spark/y", "z._COPYING_", "_g=h.json", ".place=here/y")
_START: Final = 1_700_000_000


@dataclass
class File:
    """A file and what is in it, as the page says."""

    path: str
    modified: int
    content: bytes
    rows: list[Row] = field(default_factory=list)
    letters: list[bytes | None] = field(default_factory=list)
    is_bad: bool = False

    @property
    def version(self) -> str:
        """As the log of the files source has it."""
        return f"{len(self.content)}-{self.modified * 1_000_000}"

    @property
    def has_refused_name(self) -> bool:
        """Whether it is a dead letter whatever is in it."""
        return self.path.startswith(_REFUSED)

    def put(self, folder: Path, *, by_rename: bool = False) -> None:
        target = folder / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        first = target.with_name(f"_{target.name}") if by_rename else target
        first.write_bytes(self.content)
        os.utime(first, (self.modified, self.modified))
        if by_rename:
            first.rename(target)


def same_letters(found: Counter[bytes | None], expected: Counter[bytes | None]) -> bool:
    """Of CSV a dead letter is the whole record; the model has the value that is wrong."""
    left = list(expected.elements())
    for letter in sorted(found.elements(), key=lambda each: each or b""):
        match = next((each for each in left if each == letter or (each and letter and each in letter)), b"none")
        if match not in left:
            return False
        left.remove(match)
    return not left


class FolderMaker:
    """Makes files of one format."""

    def __init__(self, seed: int) -> None:
        self.chosen = random.Random(seed)
        self.format = self.chosen.choice(["parquet", "avro", "json", "csv"])
        self.has_header = self.chosen.random() < 0.7
        self._count = 0
        self._values = 0

    @property
    def options(self) -> dict[str, str]:
        return {"header": str(self.has_header).lower()} if self.format == "csv" else {}

    def file(self, path: str | None = None) -> File:
        """A new file, or other content of one."""
        chosen = self.chosen
        self._count += 1
        name = f"{chosen.choice(_DIRECTORIES)}{chosen.choice(_NAMES)}{self._count}.{self.format}"
        if chosen.random() < 0.02:
            name = chosen.choice(_REFUSED) + name.replace("/", "-")
        if path is None and self.format != "parquet" and chosen.random() < 0.2:
            name += chosen.choice([".gz", ".bz2"])
        made = File(path or name, _START + chosen.randrange(-30, 30) * 86_400, b"")
        makers = {"parquet": self._parquet, "avro": self._avro, "json": self._json, "csv": self._csv}
        makers[self.format](made)
        made.rows = [(key, n, self._place(made.path, place)) for key, n, place in made.rows]
        if chosen.random() < 0.05:
            made.content, made.rows, made.letters, made.is_bad = b"PAR1\x00damaged", [], [], True
            if self.format in {"json", "csv"}:
                made.path = made.path if path else f"{made.path.removesuffix('.gz').removesuffix('.bz2')}.gz"
                made.is_bad = made.path.endswith((".gz", ".bz2"))
                made.content = b"damaged" if made.is_bad else b""
        elif made.path.endswith(".gz"):
            made.content = gzip.compress(made.content[:7]) + gzip.compress(made.content[7:])
        elif made.path.endswith(".bz2"):
            made.content = bz2.compress(made.content)
        if made.is_bad or made.has_refused_name:
            made.rows, made.letters, made.is_bad = [], [None], True
        return made

    def hidden(self) -> File:
        """A file that is not read."""
        return File(self.chosen.choice(_HIDDEN), _START, b"not a row")

    def _rows(self) -> list[Row]:
        rows: list[Row] = []
        for _ in range(self.chosen.choice([0, 1, 2, 5, 30])):
            self._values += 1
            text = self.chosen.choice(["in", "ä€𐍈", 'q"q', "a,b", "l\nl", "}{", " s ", None])
            rows.append((f"k{self.chosen.randrange(12)}", self._values, text))
        return rows

    @staticmethod
    def _place(path: str, value: str | None) -> str | None:
        for directory, meaning in (("place=here/", "here"), ("place=a%2Fb/", "a/b")):
            if path.startswith(directory):
                return meaning
        return None if path.startswith("place=__HIVE") else value

    def _parquet(self, file: File) -> None:
        rows = self._rows()
        ids = [row[0].encode() for row in rows]
        bad = {at for at in range(len(rows)) if self.chosen.random() < 0.05}
        ids = [b"\xff" + key if at in bad else key for at, key in enumerate(ids)]
        text = pa.array(ids, pa.binary())
        columns: dict[str, pa.Array] = {
            "ID": pa.Array.from_buffers(pa.string(), len(ids), text.buffers()),
            "n": pa.array([row[1] for row in rows], self.chosen.choice([pa.int32(), pa.int16()])),
            "place": pa.array([row[2] for row in rows], pa.string()),
        }
        if self.chosen.random() < 0.2:
            del columns["place"]
            rows = [(key, n, None) for key, n, _ in rows]
        file.rows = [row for at, row in enumerate(rows) if at not in bad]
        file.letters = [ids[at] for at in sorted(bad)]
        if self.chosen.random() < 0.1:
            columns["n"] = columns["n"].cast(pa.string())
            file.rows, file.letters, file.is_bad = [], [], True
        names = self.chosen.sample(list(columns), len(columns))
        sink = io.BytesIO()
        pq.write_table(pa.table({name: columns[name] for name in names}), sink, row_group_size=7)
        file.content = sink.getvalue()

    def _avro(self, file: File) -> None:
        rows = self._rows()
        kinds: dict[str, Any] = {"ID": "string", "n": ["null", "long" if self.chosen.random() < 0.1 else "int"]}
        if self.chosen.random() < 0.8:
            kinds["place"] = ["string", "null"]
        else:
            rows = [(key, n, None) for key, n, _ in rows]
        is_bad = kinds["n"][1] == "long"
        codec = self.chosen.choice(["null", "deflate", "bzip2"])
        names = self.chosen.sample(list(kinds), len(kinds))
        schema = parse_schema(
            {"type": "record", "name": "row", "fields": [{"name": each, "type": kinds[each]} for each in names]}
        )
        records = []
        for key, n, place in rows:
            odd = codec == "null" and self.chosen.random() < 0.05  # becomes a byte that is not UTF-8
            values = {"ID": f"\x7f{key}" if odd else key, "n": n, "place": place}
            records.append({name: values[name] for name in names})
            if odd:
                one = io.BytesIO()
                schemaless_writer(one, schema, records[-1])
                file.letters.append(one.getvalue().replace(b"\x7f", b"\xff"))
            else:
                file.rows.append((key, n, place))
        sink = io.BytesIO()
        writer(sink, schema, records, codec, self.chosen.choice([10, 16_000]), sync_marker=b"0123456789abcdef")
        file.content = sink.getvalue().replace(b"\x7f", b"\xff") if codec == "null" else sink.getvalue()
        if is_bad:
            file.rows, file.letters, file.is_bad = [], [], True

    def _json(self, file: File) -> None:
        pieces: list[bytes] = []
        for row in self._rows():
            document = json.dumps({"more": {"x": [1]}, "id": row[0], "n": row[1], "place": row[2]}).encode()
            kind = self.chosen.random()
            if kind < 0.7:
                pieces.append(document)
                file.rows.append(row)
            elif kind < 0.8:
                pieces.append(document + self.chosen.choice([b"", b" "]) + document.replace(b'"k', b'"other-k'))
                file.rows += [row, (f"other-{row[0]}", row[1], row[2])]
            elif kind < 0.85:
                pieces.append(b"[" + document + b"]")
                file.rows.append(row)
            else:
                line = self.chosen.choice(
                    [document + b" x", document[:-1], document + document[:-1], b"[1, 2]", b"\xff"]
                )
                pieces.append(line)
                file.letters.append(line)
            pieces.append(self.chosen.choice([b"\n", b"\n", b"\n\n \n"]))
        if pieces and pieces[-1] == b"\n" and self.chosen.random() < 0.3:
            pieces.pop()
        file.content = b"".join(pieces)

    def _csv(self, file: File) -> None:
        names = ["id", "n", "place"]
        if self.has_header:
            self.chosen.shuffle(names)
        elif file.path.startswith("place="):  # files have no column whose value is in a directory's name
            names.remove("place")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator=self.chosen.choice(["\n", "\r\n"]), quoting=csv.QUOTE_MINIMAL)
        if self.has_header and self.chosen.random() < 0.9:
            writer.writerow([name.upper() for name in names])
        elif self.has_header:
            file.is_bad = True
        for row in self._rows():
            cells: dict[str, Any] = {"id": row[0], "n": str(row[1]), "place": row[2]}
            kind = self.chosen.random()
            if kind < 0.85:
                file.rows.append(row)
                writer.writerow([cells[name] for name in names])
            elif kind < 0.92:
                cells["n"] = "many"
                writer.writerow(["x" if cells[name] is None else cells[name] for name in names])
                file.letters.append(b"many")
            else:
                writer.writerow(["just one"])
                file.letters.append(b"just one")
        file.content = text.getvalue().encode()
        if file.is_bad and not file.content:
            file.is_bad = False
        if file.is_bad:
            file.rows, file.letters = [], []
