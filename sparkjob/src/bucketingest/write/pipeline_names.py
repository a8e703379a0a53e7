"""Where a pipeline's name stands: in its instants, and as one directory level next to tables and dead letters."""

from __future__ import annotations

from typing import Final

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.storage import Storage

PIPELINE: Final = "bucketingest.pipeline"
"""Key of the pipeline in the extra metadata of its instants."""

NOT_PIPELINES: Final = ("lease", "services", "state")
"""The table's lease, the objects of its table services and the state of its index lie under these names."""


def directory_name(pipeline: str) -> str:
    """namespace/name becomes namespace~name: no Kubernetes name has a ~."""
    return f"{pipeline}~" if pipeline in NOT_PIPELINES else pipeline.replace("/", "~")


def instant_path(pipeline: str, instant: str, name: str = "") -> str:
    """Path of a journal object of one of the pipeline's instants, or of its directory: see `write.instants.journal`."""
    return f"{OWN_DIRECTORY}/{directory_name(pipeline)}/instants/{instant}/{name}".rstrip("/")


def pipeline_of(directory: str) -> str:
    """The pipeline whose `directory_name` this is."""
    name = directory.removesuffix("~")
    return name if name in NOT_PIPELINES else directory.replace("~", "/")


def pipelines(storage: Storage) -> tuple[str, ...]:
    """Names of the pipelines that have ever written to the table."""
    names = (path.rpartition("/")[2] for path in storage.list_level(OWN_DIRECTORY).directories)
    return tuple(sorted(pipeline_of(name) for name in names if name not in NOT_PIPELINES))
