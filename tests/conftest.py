"""What holds for every test: how hypothesis searches, that a failure can be repeated, and that no lease or lock of a
process that a test "killed" is renewed, and logs, in later tests.
"""

import os
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "default-here",
    # Each run tries others, so many runs try many. BUCKETINGEST_EXAMPLES=1000 for a long search in one.
    max_examples=int(os.environ.get("BUCKETINGEST_EXAMPLES", "40")),
    deadline=None,  # a busy machine is no failure
    print_blob=True,  # a failure prints what repeats it
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default-here")


@pytest.fixture(autouse=True)
def _renewals_end_with_their_test() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for each in set(threading.enumerate()) - before:
        owner = getattr(getattr(each, "_target", None), "__self__", None)
        if owner is not None and type(owner).__name__ == "RenewalThread":
            owner.stop(timedelta(seconds=5))
