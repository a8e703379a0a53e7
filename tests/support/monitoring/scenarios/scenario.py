"""One test of an alert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WHO = {"namespace": "shop", "name": "orders"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One story. `series`: metric with labels → values in promtool's words, one each `step`.

    `fires_at`, `silent_at`: times at which the alert is looked at, such as 10m.
    """

    alert: str
    story: str
    series: Mapping[str, str]
    fires_at: tuple[str, ...] = ()
    silent_at: tuple[str, ...] = ()
    step: str = "30s"
    labels: Mapping[str, str] = field(default_factory=lambda: WHO)
    """Labels of the alert beyond its severity."""


def of(metric: str, **labels: str) -> str:
    """A series of shop/orders."""
    words = ", ".join(f'{name}="{value}"' for name, value in {**WHO, **labels}.items())
    return f"{metric}{{{words}}}"
