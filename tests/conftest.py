"""What holds for every test: how hypothesis searches, and that a failure can be repeated."""

import os

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
