"""Puts the definition of BucketIngest into a cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError

_FILE: Final = Path(__file__).parents[2] / "crds" / "bucketingests.yaml"
_SERVED: Final = "/apis/bucketingest.dev/v1alpha1/bucketingests?limit=1"
_SECONDS: Final = 60.0


def define(cluster: Cluster) -> None:
    """Apply it, and wait until it is served: `kubectl wait` fails while its conditions are still null.

    Raises ClusterError.
    """
    cluster.kubectl("apply", "--server-side", "-f", str(_FILE))
    end = time.monotonic() + _SECONDS
    while True:
        try:
            cluster.kubectl("get", "--raw", _SERVED)
        except ClusterError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return
