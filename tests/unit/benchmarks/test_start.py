"""What our side of a benchmark is started with is a resource that a job takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.sides import start
from bucketingest.spec.reading.load import parse_object


def test_our_side_starts_with_a_valid_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "Side", lambda command, _environment: command)
    start.start_ours(tmp_path)
    parse_object(json.loads((tmp_path / "ours.json").read_text())["resource"])
