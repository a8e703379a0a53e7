"""A registry over HTTP for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.registry.http_registry import HttpRegistry, http_registry


@pytest.fixture
def registry() -> Iterator[HttpRegistry]:
    with http_registry() as found:
        yield found
