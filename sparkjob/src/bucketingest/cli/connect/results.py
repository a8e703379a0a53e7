"""What the checks of one file found: each that passed, failed, or could not be made because of another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from bucketingest.cli.exit_code_of_error import exit_code
from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode

Found = TypeVar("Found")

PREFLIGHT_FAILED: Final = "PreflightFailed"
"""Error class of the termination message: by it the operator knows a check that failed from an image that has none."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: One word for its subject: storage, source.
        said: What was found, or what is wrong.
        code: OK, or the exit code of what is wrong.
    """

    name: str
    said: str
    code: ExitCode = ExitCode.OK


@dataclass(slots=True)
class Results:
    """The checks of one file so far."""

    show: Callable[[Check], None]
    checks: list[Check] = field(default_factory=list)

    def check(self, name: str, seconds: float, look: Callable[[], Found], say: Callable[[Found], str]) -> Found | None:
        """What `look` returns; None if it raises: then the check has failed, and others go on."""
        try:
            found = within(seconds, name, look)
        except BucketIngestError as error:
            self._note(Check(name, str(error), exit_code(error)))
            return None
        except Exception as error:  # noqa: BLE001 - of Spark, or a defect: the other checks still say what they find
            self._note(Check(name, f"{type(error).__name__}: {error}".partition("\n")[0], exit_code(error)))
            return None
        self._note(Check(name, say(found)))
        return found

    def _note(self, check: Check) -> None:
        self.checks.append(check)
        self.show(check)

    @property
    def failed(self) -> list[Check]:
        """Those that failed."""
        return [each for each in self.checks if each.code is not ExitCode.OK]


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
