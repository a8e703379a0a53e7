"""Runs a check with a limit of time: a service that neither answers nor refuses must not hold the others up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode

Found = TypeVar("Found")

MARGIN_SECONDS: Final = 5.0
"""What checks whose own limits come first get beside these: their messages say more."""


class CheckTimedOut(BucketIngestError):
    """A check has not ended in time. Its message says what was asked."""

    exit_code = ExitCode.SOURCE_UNAVAILABLE


def within(seconds: float, what: str, check: Callable[[], Found], margin: float = MARGIN_SECONDS) -> Found:
    """What the check returns. It goes on in its thread when its time and the margin are up, and ends with the process.

    Raises CheckTimedOut, and what the check raises.
    """
    found: list[Found] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(check())
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            raised.append(error)

    thread = threading.Thread(target=run, name=f"check {what}", daemon=True)
    thread.start()
    thread.join(seconds + margin)
    if raised:
        raise raised[0]
    if not found:
        raise CheckTimedOut(f"{what} has not answered within {seconds + margin:g} s: check address and network")
    return found[0]
