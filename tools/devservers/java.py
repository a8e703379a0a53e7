"""Which Java runs the servers that need a newer one than Spark's."""

from pathlib import Path

from devservers.locations import MissingDependencyError

_PLACES = ("/usr/lib/jvm/*25*/bin/java", "/opt/java/*25*/bin/java")


def java_25(what: str) -> Path:
    """Java 25, for a server of this name.

    Raises:
        MissingDependencyError: there is none.
    """
    for pattern in _PLACES:
        for found in Path("/").glob(pattern.lstrip("/")):
            return found
    raise MissingDependencyError(f"{what} needs Java 25: none at {' or '.join(_PLACES)}")
