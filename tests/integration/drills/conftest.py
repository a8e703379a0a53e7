"""The kubectl that on-call types with: built here, where the operator's tests can run; else the machine's own."""

from __future__ import annotations

import os

import pytest

from devcluster.binaries import find_tool
from devcluster.errors import ClusterError
from devcluster.node import embedded, machine


@pytest.fixture(scope="session")
def kubectl() -> None:
    """It is there, or the test is skipped."""
    if machine.why_not() is None:
        embedded.setup(with_node=False)
    try:
        find_tool("kubectl")
    except ClusterError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
