"""The operator's chart on a cluster, installed by Helm as a user would, with images that were built here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devcluster.binaries import find_tool
from devcluster.cluster import Cluster
from devcluster.commands import run, say
from devcluster.images.project import TARGETS, Image, builder
from devservers.locations import PROJECT_ROOT

CHART: Final = PROJECT_ROOT / "charts" / "bucketingest"
RELEASE: Final = "bucketingest"
NAMESPACE: Final = "bucketingest"


@dataclass(frozen=True, slots=True)
class Images:
    """Names by which pods have the images."""

    job: str
    operator: str

    def values(self) -> dict[str, Any]:
        """For the chart."""
        repository, _, tag = self.operator.rpartition(":")
        return {"operator": {"image": {"repository": repository, "tag": tag}}, "job": {"image": self.job}}


def bring_images(cluster: Cluster, built: Sequence[Image] | None = None) -> Images:
    """Bring both images to the cluster, and build them before unless they are `built`. Raises ClusterError."""
    return Images(**{image.target: cluster.push(image) for image in built or build_images()})


def build_images() -> list[Image]:
    """Both images; half a minute if nothing has changed. Raises ClusterError."""
    building = builder()
    return [building.build(target) for target in TARGETS]


def install(cluster: Cluster, *values: Mapping[str, Any], wait: bool = True, chart: Path = CHART) -> None:
    """`helm upgrade --install`, with values of which later ones win; returns when the operator is ready. `chart`: the
    project's, or that of another version.

    Raises:
        ClusterError: Helm says why.
    """
    say(f"installing the chart as {RELEASE}")
    with tempfile.TemporaryDirectory(prefix="devcluster-values-") as folder:
        files = []
        for number, each in enumerate(values):
            file = Path(folder) / f"{number}.json"  # JSON is YAML
            file.write_text(json.dumps(each))
            files += ["--values", str(file)]
        waiting = ["--wait", "--timeout", "3m"] if wait else []
        helm(cluster, "upgrade", "--install", RELEASE, str(chart), "--create-namespace", *files, *waiting)


def helm(cluster: Cluster, *arguments: str) -> str:
    """What Helm prints, in the release's namespace. Raises ClusterError."""
    where = ["--kubeconfig", str(cluster.kubeconfig), "--namespace", NAMESPACE]
    return run([find_tool("helm"), *where, *arguments])
