from __future__ import annotations

from driver_heaps import Pauses, pauses

LOG = """\
[1000ms] Using Parallel
[2000ms] GC(0) Pause Young (Allocation Failure) 64M->5M(123M) 100.000ms
[5000ms] GC(1) Pause Young (GCLocker Initiated GC) 90M->70M(123M) 250.500ms
[5500ms] GC(2) Pause Full (Ergonomics) 70M->40M(123M) 749.500ms
[9000ms] GC(3) Pause Young (Allocation Failure) 164M->105M(223M) 9.000ms
"""


def test_only_the_pauses_of_the_measured_time_count() -> None:
    assert pauses(LOG, 4.0, 8.0) == Pauses(0.25, 70)
    assert pauses(LOG, 1.0, 3.0) == Pauses(0.05, 5)


def test_without_a_measured_time_there_is_no_share() -> None:
    assert pauses(LOG, 0.0, 0.0) == Pauses(0.0, 0)
    assert pauses("", 1.0, 2.0) == Pauses(0.0, 0)
