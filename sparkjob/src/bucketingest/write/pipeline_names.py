"""A pipeline's name as one directory level, for its objects next to tables and dead letters."""

from __future__ import annotations

from typing import Final

_TAKEN: Final = "lease"
"""The table's lease lies under this name."""


def directory_name(pipeline: str) -> str:
    """namespace/name becomes namespace~name: no Kubernetes name has a ~."""
    return f"{_TAKEN}~" if pipeline == _TAKEN else pipeline.replace("/", "~")


def pipeline_of(directory: str) -> str:
    """The pipeline whose `directory_name` this is."""
    return _TAKEN if directory == f"{_TAKEN}~" else directory.replace("~", "/")
