"""One played situation: what happens, and which alerts fire when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from support.drills.played import PlayedPipeline


@dataclass(frozen=True, slots=True)
class Situation:
    """One story.

    Attributes:
        plays: Lets it happen.
        expected: Time since the beginning, such as "12m" → exactly the alerts that fire then, without their prefix.
    """

    story: str
    plays: Callable[[PlayedPipeline], None]
    expected: Mapping[str, frozenset[str]]


def alerts(*names: str) -> frozenset[str]:
    """Names of alerts."""
    return frozenset(names)


NONE = alerts()
LATE = alerts("CommitsLate", "FreshnessFastBurn")
YOUNG = alerts("FreshnessSlowBurn")
"""Its windows are days: in the first hours of a pipeline they hold little else than the outage."""
