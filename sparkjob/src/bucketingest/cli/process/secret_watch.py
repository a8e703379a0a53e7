"""Notices that a Secret or ConfigMap of the pipeline was rotated: its processes keep what they read at their start."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bucketingest.spec.errors import SpecError
from bucketingest.spec.fields.source_secret import secret_options
from bucketingest.spec.model import BucketIngestSpec

STOP_VARIABLE: Final = "BUCKETINGEST_STOP_ON_CHANGED_SECRET"
"""Environment variable: `true` where something starts the job again after it stopped."""
EVERY_SECONDS: Final = 30.0


class SecretWatch:
    """Compares the options of the source's Secret, and the files of mounted Secrets and ConfigMaps, with those at the
    start. The environment says where the source's Secret is mounted, and whether to watch at all.
    """

    def __init__(
        self,
        spec: BucketIngestSpec,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kafka = spec.source.kafka
        # A claim has tables or a user's own files, which change for other reasons.
        mounted = (each for each in spec.pod.volumes if each.persistent_volume_claim is None)
        self._folders = [Path(each.mount_path) for each in mounted]
        self._environment = environment
        self._clock = clock
        self._next = clock() + EVERY_SECONDS
        self._watches = environment.get(STOP_VARIABLE) == "true"
        self._first = self._digests()

    def changed(self) -> bool:
        """Whether something of it is another now. Looks at most once in 30 s. What is gone has not changed."""
        if not self._first or self._clock() < self._next:
            return False
        self._next = self._clock() + EVERY_SECONDS
        now = self._digests()
        return any(digest != self._first[what] for what, digest in now.items() if what in self._first)

    def _digests(self) -> dict[str, bytes]:
        """By what is watched; without what cannot be read, or not be used: a restart would only fail."""
        if not self._watches:
            return {}
        found = {str(folder): _digest_of_files(folder) for folder in self._folders}
        if self._kafka is not None and self._kafka.has_secret_options:
            found["source"] = self._digest_of_options()
        return {what: digest for what, digest in found.items() if digest is not None}

    def _digest_of_options(self) -> bytes | None:
        try:
            options = secret_options(self._kafka, self._environment)
        except SpecError:
            return None
        return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).digest()


def _digest_of_files(folder: Path) -> bytes | None:
    """Of all keys of a Secret or ConfigMap (1 MiB at most); None if one cannot be read, or there are none."""
    digest = hashlib.sha256()
    try:
        # Kubernetes' own names begin with two dots: the folders that it swaps when the content changes.
        files = [each for each in sorted(folder.iterdir()) if not each.name.startswith("..")]
        for each in files:
            digest.update(f"{each.name}/{each.stat().st_size}/".encode() + each.read_bytes())
    except OSError:
        return None
    return digest.digest() if files else None
