"""What holds for every test: how hypothesis searches, and that a failure can be repeated."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default-here",
    deadline=None,  # a busy machine is no failure
    print_blob=True,  # a failure prints what repeats it
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default-here")
