"""Reads the last spec that committed from its attempt's ConfigMap: only while another one is wanted."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from bucketingest.spec.errors import SpecError
from bucketingest.spec.model import KIND, BucketIngest
from bucketingest.spec.reading.load import load_text
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.kube.api import Api, Object
from bucketingest_operator.kube.kinds import CONFIG_MAPS
from bucketingest_operator.manifests.attempt_objects import ATTEMPT_LABEL, UID_LABEL
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.manifests.pod_specs import SPEC_FILE
from bucketingest_operator.observe.ownership import Controller, controller_of
from bucketingest_operator.resource import Resource

log = logging.getLogger(__name__)

_WHOLE: Final = replace(CONFIG_MAPS, metadata_only=False)


class LastGoodReader:
    """Reads it once for each resource that needs it: ConfigMaps of attempts are immutable."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._read: dict[str, tuple[int, BucketIngest]] = {}

    async def read(self, resource: Resource) -> BucketIngest | None:
        """The last spec that committed; None if it is the wanted one, or there is none, or it cannot be read."""
        upgrade = resource.status.upgrade
        if upgrade is None or (resource.wanted is not None and digest(resource.wanted) == upgrade.digest):
            self._read.pop(resource.uid, None)
            return None
        known = self._read.get(resource.uid)
        if known is not None and known[0] == upgrade.attempt:
            return known[1]
        labels = f"{UID_LABEL}={resource.uid},{ATTEMPT_LABEL}={upgrade.attempt}"
        found, _ = await self._api.list(_WHOLE, resource.namespace, labels)
        spec = spec_of(resource, upgrade.attempt, found)
        if spec is not None:
            self._read[resource.uid] = (upgrade.attempt, spec)
        return spec

    def forget(self, uid: str) -> None:
        """The resource no longer exists."""
        self._read.pop(uid, None)


def spec_of(resource: Resource, attempt: int, config_maps: list[Object]) -> BucketIngest | None:
    """The spec in the ConfigMap of an attempt. Pure but for the log."""
    name = Names(resource.name, resource.uid).attempt(attempt)
    for each in config_maps:
        metadata = each["metadata"]
        if metadata["name"] != name or controller_of(metadata) != Controller(KIND, resource.uid):
            continue
        try:
            return load_text((each.get("data") or {}).get(SPEC_FILE, ""), name, lambda _fields: None)
        except SpecError as error:
            log.warning("the last spec that committed cannot be read", extra={"config_map": name, "error": str(error)})
    return None
