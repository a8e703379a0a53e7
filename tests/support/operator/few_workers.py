"""The operator's command with two workers and two pollers, which waits for a driver's answer without end: a few silent
drivers are as many as it has.
"""

from __future__ import annotations

from typing import Final

import aiohttp

from bucketingest_operator import main as command
from bucketingest_operator import passes, wiring
from bucketingest_operator.observe import progress_client

WORKERS: Final = 2


def main() -> int:
    """Run it; returns its exit code."""
    for module in (passes, wiring):
        for name in ("WORKERS", "POLLERS"):
            setattr(module, name, WORKERS)
    progress_client._TIMEOUT = aiohttp.ClientTimeout()  # type: ignore[misc]
    return command.main()
