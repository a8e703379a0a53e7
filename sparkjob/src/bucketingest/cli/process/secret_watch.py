"""Notices that the Secret of the source was rotated: a driver keeps the options that it was started with."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Final

from bucketingest.spec.errors import SpecError
from bucketingest.spec.fields.source import KafkaSource
from bucketingest.spec.fields.source_secret import secret_options

STOP_VARIABLE: Final = "BUCKETINGEST_STOP_ON_CHANGED_SECRET"
"""Environment variable: `true` where something starts the job again after it stopped."""
EVERY_SECONDS: Final = 30.0


class SecretWatch:
    """Compares the options of the source's Secret with those at the start.

    Args:
        kafka: The source; None if it is another one.
        environment: Says where the Secret is mounted, and whether to watch it.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        kafka: KafkaSource | None,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kafka = kafka
        self._environment = environment
        self._clock = clock
        self._next = clock() + EVERY_SECONDS
        watched = kafka is not None and kafka.has_secret_options and environment.get(STOP_VARIABLE) == "true"
        self._first = self._digest() if watched else None

    def changed(self) -> bool:
        """Whether the options are other ones now. Looks at most once in 30 s. A Secret that is gone has not changed."""
        if self._first is None or self._clock() < self._next:
            return False
        self._next = self._clock() + EVERY_SECONDS
        now = self._digest()
        return now is not None and now != self._first

    def _digest(self) -> bytes | None:
        """None if the options cannot be read, or not be used: a restart would only fail."""
        try:
            options = secret_options(self._kafka, self._environment)
        except SpecError:
            return None
        return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).digest()
