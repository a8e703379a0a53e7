"""Tables and files that Hudi wrote, unpacked for a test."""

from __future__ import annotations

import tarfile
from pathlib import Path

HUDI_FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "hudi"


def unpack_fixture(name: str, tmp_path: Path) -> Path:
    """Unpack the table `name` (`java_v9_avro`, ...) below `tmp_path`; returns the table's root."""
    with tarfile.open(HUDI_FIXTURES / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / name


def properties_fixture(name: str) -> str:
    """Text of a hoodie.properties that Hudi wrote (`np9`, `multi8`, ...; see the fixtures' README)."""
    return (HUDI_FIXTURES / "properties" / f"{name}.properties").read_text("iso-8859-1")
