"""Where a compaction is merged, and what is left to Hudi's services: the whole table of decisions."""

from __future__ import annotations

import pytest

from bucketingest.services.foreign import ForeignServices
from bucketingest.services.placement import LARGE, Home, Mode, ServicesPolicy, choose_home, left_to_hudi

INLINE, JOB = Home.INLINE, Home.JOB


@pytest.mark.parametrize(
    ("mode", "makes_jobs", "size", "pods_missing", "home", "why"),
    [
        ("inline", True, LARGE, False, INLINE, "services.mode is inline"),
        ("inline", False, LARGE, False, INLINE, "services.mode is inline"),
        ("job", True, 0, False, JOB, "services.mode is job"),
        ("job", True, LARGE, True, JOB, "services.mode is job"),
        ("job", False, LARGE, False, INLINE, "no operator makes Jobs here"),
        ("auto", False, LARGE, False, INLINE, "no operator makes Jobs here"),
        ("auto", True, LARGE - 1, False, INLINE, "it is small"),
        ("auto", True, LARGE, False, JOB, "it is large: 2.0 GiB"),
        ("auto", True, LARGE, True, INLINE, "no pod has started"),
        ("off", True, LARGE, False, JOB, "it is large"),
        ("off", True, 0, False, INLINE, "it is small"),
        ("off", False, LARGE, False, INLINE, "no operator makes Jobs here"),
    ],
)
def test_where_a_compaction_is_merged(
    *, mode: Mode, makes_jobs: bool, size: int, pods_missing: bool, home: Home, why: str
) -> None:
    choice = choose_home(ServicesPolicy(mode, makes_jobs), size, pods_missing=pods_missing)
    assert choice.home is home
    assert choice.why.startswith(why)


BOTH, COMPACTS, CLEANS = ForeignServices("1", "2"), ForeignServices("1"), ForeignServices(clean="2")


@pytest.mark.parametrize(
    ("mode", "found", "compaction", "tidying"),
    [
        ("auto", ForeignServices(), False, False),
        ("auto", COMPACTS, True, True),
        ("auto", CLEANS, False, True),
        ("auto", BOTH, True, True),
        ("inline", BOTH, False, False),
        ("job", BOTH, False, False),
        ("off", BOTH, False, False),
    ],
)
def test_what_is_left_to_hudi(*, mode: Mode, found: ForeignServices, compaction: bool, tidying: bool) -> None:
    left = left_to_hudi(mode, found)
    assert (left.compaction is not None, left.tidying is not None) == (compaction, tidying)
