"""A chart as an OCI artifact in a file, as `helm push` would put it into a registry: `skopeo copy oci-archive:FILE
docker://REGISTRY/bucketingest:VERSION` brings it there (https://helm.sh/docs/topics/registries, OCI image layout 1.0).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_CHART: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"


def write_chart_archive(chart: Path, metadata: dict[str, Any], archive: Path) -> None:
    """Write the OCI archive of a packaged chart. `metadata`: what Chart.yaml says."""
    blobs: dict[str, bytes] = {}

    def blob(media_type: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": blob(_CONFIG, _json(metadata)),
        "layers": [blob(_CHART, chart.read_bytes())],
        "annotations": {
            "org.opencontainers.image.title": metadata["name"],
            "org.opencontainers.image.version": metadata["version"],
        },
    }
    reference = {"org.opencontainers.image.ref.name": metadata["version"]}
    entry = {**blob(_MANIFEST, _json(manifest)), "annotations": reference}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]}
    with tarfile.open(archive, "w") as file:
        _add(file, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(file, "index.json", _json(index))
        for digest, content in sorted(blobs.items()):
            _add(file, f"blobs/sha256/{digest}", content)


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _add(file: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    file.addfile(member, io.BytesIO(content))
