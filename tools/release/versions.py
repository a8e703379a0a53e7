"""The version of the project: one number, written in every file that needs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from devservers.locations import PROJECT_ROOT

_NUMBER: Final = r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?"
# (file, what stands around the version)
_PLACES: Final = (
    ("sparkjob/pyproject.toml", r'(?m)^version = "{}"$'),
    ("operator/pyproject.toml", r'(?m)^version = "{}"$'),
    ("charts/bucketingest/Chart.yaml", r"(?m)^version: {}$"),
    ("charts/bucketingest/Chart.yaml", r'(?m)^appVersion: "{}"$'),
    ("charts/bucketingest/README.md", r"/bucketingest-job:{}\n"),
    ("README.md", r"/bucketingest-job:{}\n"),
)


def versions(root: Path = PROJECT_ROOT) -> dict[str, str]:
    """The version in each place: file, and what is around the number.

    Raises:
        ValueError: a place has none.
    """
    found = {}
    for name, around in _PLACES:
        match = _pattern(around).search((root / name).read_text())
        if match is None:
            raise ValueError(f"{name} has no version; wanted: {around}")
        found[f"{name}: {around}"] = match["version"]
    return found


def version(root: Path = PROJECT_ROOT) -> str:
    """The one version. Raises ValueError where two places differ; `make version VERSION=...` writes all."""
    found = versions(root)
    if len(set(found.values())) > 1:
        listed = "\n".join(f"  {number}  {place}" for place, number in found.items())
        raise ValueError(f"the version differs; make version VERSION=... writes it everywhere:\n{listed}")
    return next(iter(found.values()))


def write_version(number: str, root: Path = PROJECT_ROOT) -> None:
    """Write the version into every place. Raises ValueError."""
    if not re.fullmatch(_NUMBER, number):
        raise ValueError(f"{number!r} is no version such as 1.2.3 or 1.2.3-rc.1")
    versions(root)  # every place is there before one is written
    for name, around in _PLACES:
        file = root / name
        file.write_text(
            _pattern(around).sub(lambda match: match[0].replace(match["version"], number), file.read_text())
        )


def _pattern(around: str) -> re.Pattern[str]:
    return re.compile(around.replace("{}", f"(?P<version>{_NUMBER})"))
