"""What is said about an image's origin."""

from __future__ import annotations

from devcluster.images.project import Image
from release.provenance import statement


def test_it_names_the_image_by_its_digest_and_the_commit() -> None:
    digest = "ab" * 32
    found = statement(Image("job", digest[:12], digest), "arm64", "c" * 40, changed=True)
    assert found["subject"] == [{"name": "bucketingest-job", "digest": {"sha256": digest}}]
    definition = found["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"] == [{"name": "source", "digest": {"gitCommit": "c" * 40}}]
    assert definition["externalParameters"] == {"file": "Dockerfile", "target": "job", "architecture": "arm64"}
    assert definition["internalParameters"]["uncommittedChanges"]
