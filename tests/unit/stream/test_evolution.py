"""Random chains of schemas: hudi-rs shows the rows that the rules promise, whatever comes between, and no others are
dead letters. BUCKETINGEST_CHAINS=0-1000 plays these instead.

Also if the registry fails again and again, or has another schema for an id of which a process has asked.
"""

from __future__ import annotations

import os
import random
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Final

import pytest

from bucketingest.registry.lookups import Patience
from support.evolution.chains import FormatName
from support.evolution.formats import FORMATS
from support.evolution.process import played
from support.evolution.registries import Real
from support.registry.http_registry import HttpRegistry, http_registry, respond

FIRST, _, LAST = os.environ.get("BUCKETINGEST_CHAINS", "0-14").partition("-")


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
@pytest.mark.parametrize("format_", FORMATS)
def test_each_row_is_read_as_the_union_of_all_schemas(tmp_path: Path, format_: FormatName, seed: int) -> None:
    assert played(tmp_path, seed, format_).messages


_NO_ANSWERS: Final = [(503, {}), (404, b"<html>"), (200, b"{"), (200, {"schema": 7}), (500, {"error_code": 40403})]


class Troubled:
    """A registry that takes each version. Half of its answers to jobs are none, and of an id that it has told since a
    job's start it has another schema.
    """

    def __init__(self, server: HttpRegistry, seed: int) -> None:
        self._server, self._draw = server, random.Random(seed)
        self._told: set[str] = set()
        self.failures = 0
        server.misbehaves = self._answers

    @property
    def url(self) -> str:
        return self._server.url

    def register(self, subject: str, schema: str, *, kind: str) -> int:
        return self._server.register(subject, schema, schemaType=kind)

    def only_compatible(self, subject: str, mode: str) -> None:
        """All are."""

    def forgets(self) -> None:
        self._told.clear()

    def _answers(self, handler: BaseHTTPRequestHandler) -> None:
        if self._draw.random() < 0.5:
            self.failures += 1
            respond(handler, *self._draw.choice(_NO_ANSWERS))
        elif handler.path in self._told:
            respond(handler, 200, {"schema": '"string"'})
        else:
            self._told |= {handler.path} if "/ids/" in handler.path else set()
            respond(handler, *self._server.answer(handler.path))


class FromTheStart(Real):
    """Each process of a job asks anew."""

    troubled: Troubled

    def starts(self) -> None:
        self.troubled.forgets()
        super().starts()


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST), 3))
@pytest.mark.parametrize("format_", FORMATS)
def test_a_registry_that_fails_again_and_again_changes_nothing(tmp_path: Path, format_: FormatName, seed: int) -> None:
    for_ever = Patience(60, lambda _: None, lambda: 0)
    with http_registry() as server:
        FromTheStart.troubled = troubled = Troubled(server, seed)
        registry = FromTheStart(troubled, f"s{seed}", FORMATS[format_], "NONE", for_ever)
        assert played(tmp_path, seed, format_, registry).messages
    assert troubled.failures
