"""Names of everything the operator creates: from the resource's UID and the attempt, so that each is created once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """Names of the objects of one resource.

    A resource that is deleted and created again has another UID, and so other names.
    """

    resource: str
    uid: str

    @property
    def base(self) -> str:
        """At most 35 characters: Spark allows 47 for the prefix of executors, and the attempt is added."""
        return f"{self.resource[:24].rstrip('-')}-{hashlib.sha256(self.uid.encode()).hexdigest()[:10]}"

    def rpc_secret(self, part: str) -> str:
        """Secret by which an attempt's driver and executors know each other. Nobody can make it before the operator."""
        return f"{self.base}-rpc-{part}"

    def attempt(self, number: int) -> str:
        """Prefix of an attempt's executors; its ConfigMap."""
        return f"{self.base}-{number}"

    def driver(self, number: int) -> str:
        """Driver pod."""
        return f"{self.attempt(number)}-driver"

    def rollback(self, number: int) -> str:
        """Rollback Job after an attempt."""
        return f"{self.attempt(number)}-rollback"

    def compaction(self, number: int, round_number: int) -> str:
        """Job of a round of a compaction."""
        return f"{self.base}-compaction-{number}-{round_number}"

    @property
    def services(self) -> str:
        """Job that does table services while the resource is suspended."""
        return f"{self.base}-services"

    def preflight(self, digest: str) -> str:
        """Job that checks a changed spec, by its hash."""
        return f"{self.base}-preflight-{digest[:10]}"

    @property
    def audit(self) -> str:
        """Job that compares the table with its source."""
        return f"{self.base}-audit"

    def event(self, *parts: object) -> str:
        """An event, by its content."""
        digest = hashlib.sha256("/".join(map(str, (self.uid, *parts))).encode()).hexdigest()[:16]
        return f"{self.base}.{digest}"
