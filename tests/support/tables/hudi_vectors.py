"""Record keys and buckets that Hudi 1.2.0 produced, parsed from tests/fixtures/hudi."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from support.tables.fixtures import HUDI_FIXTURES


@dataclass(frozen=True)
class BucketVector:
    record_key: str
    hash_fields: tuple[str, ...]
    hash_keys: tuple[str | None, ...]
    buckets: dict[int, int]


@dataclass(frozen=True)
class KeygenVector:
    rows: tuple[tuple[str, int, str], ...]
    keygen: str
    key_fields: tuple[str, ...]


def single_vectors() -> list[BucketVector]:
    lines = (HUDI_FIXTURES / "hashvec.txt").read_text("utf-8").splitlines()
    found = []
    for line in lines:
        match = re.fullmatch(r"('.*') (\[.*\]) OK", line)
        if match:
            key, buckets = ast.literal_eval(match[1]), ast.literal_eval(match[2])
            found.append(BucketVector(key, ("id",), (key,), {count: bucket for count, bucket, _ in buckets}))
    assert len(found) > 20
    return found


def composite_vectors() -> list[BucketVector]:
    lines = (HUDI_FIXTURES / "hashvec2.txt").read_text("utf-8").splitlines()
    found = []
    for line in lines:
        match = re.fullmatch(r"('.*') (\S+) hashKeys= (\[.*\]) java (\[.*\]) py .* OK", line)
        if match:
            keys, buckets = ast.literal_eval(match[3]), ast.literal_eval(match[4])
            fields = tuple(match[2].split(","))
            counts = dict(zip((4, 8, 256), buckets, strict=True))
            found.append(BucketVector(ast.literal_eval(match[1]), fields, tuple(keys), counts))
    assert len(found) > 10
    return found


def keygen_vectors() -> dict[str, KeygenVector]:
    """By name of the case; the tables had 8 buckets."""
    found = {}
    for line in (HUDI_FIXTURES / "keygen.txt").read_text("utf-8").splitlines():
        match = re.fullmatch(r"(\w+) upsert (\[\(.*\)\]) (\['hoodie.*\])", line)
        if match:
            properties = dict(entry.split("=", 1) for entry in ast.literal_eval(match[3]))
            found[match[1]] = KeygenVector(
                rows=tuple(ast.literal_eval(match[2])),
                keygen=properties["hoodie.table.keygenerator.type"],
                key_fields=tuple(properties["hoodie.table.recordkey.fields"].split(",")),
            )
    assert len(found) > 15
    return found
