"""From which commit and how an image was made: a statement of in-toto with SLSA's predicate, to be signed or stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from devcluster.commands import run
from devcluster.images.project import Image
from devservers.locations import PROJECT_ROOT

_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "https://slsa.dev/provenance/v1"


def statement(image: Image, architecture: str, commit: str, *, changed: bool) -> dict[str, Any]:
    """What is known of an image. Fields: the specification of SLSA's provenance, version 1. Pure.

    Args:
        image: With its digest.
        architecture: amd64 or arm64.
        commit: Of the sources.
        changed: There were changes that are in no commit.
    """
    definition = {
        "buildType": "https://bucketingest.dev/make-images/v1",
        "externalParameters": {"file": "Dockerfile", "target": image.target, "architecture": architecture},
        "internalParameters": {"uncommittedChanges": changed},
        "resolvedDependencies": [{"name": "source", "digest": {"gitCommit": commit}}],
    }
    return {
        "_type": _STATEMENT,
        "subject": [{"name": image.repository, "digest": {"sha256": image.digest}}],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": definition,
            "runDetails": {"builder": {"id": "https://bucketingest.dev/make-images"}},
        },
    }


def write_provenance(out: Path, image: Image, architecture: str) -> None:
    """Write the statement about an image beside its bills of materials."""
    commit = run(["git", "rev-parse", "HEAD"], folder=PROJECT_ROOT).strip()
    changed = bool(run(["git", "status", "--porcelain"], folder=PROJECT_ROOT).strip())
    content = statement(image, architecture, commit, changed=changed)
    file = out / f"{image.repository}-{architecture}.provenance.json"
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
