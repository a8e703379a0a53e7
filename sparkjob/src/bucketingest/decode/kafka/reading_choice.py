"""Whether the tasks read Kafka or Spark does it for them: the client of the tasks has not all options of Java's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from bucketingest.decode.kafka.client_options import Client, NotTranslated, client_of
from bucketingest.spec.fields.source_secret import source_options
from bucketingest.spec.model import BucketIngest

LIBRARY: Final = "confluent_kafka"
_TOKENS: Final = "spark.kafka.clusters."
_TRUST: Final = "javax.net.ssl."


@dataclass(frozen=True, slots=True)
class Reading:
    """Who reads Kafka's messages."""

    client: Client | None
    """Of the tasks; None if Spark reads."""
    why: str = ""
    """Why Spark does."""

    def __str__(self) -> str:
        return f"reading Kafka through Spark: {self.why}" if self.client is None else "reading Kafka in the tasks"


def reading_of(resource: BucketIngest, settings: Mapping[str, str]) -> Reading | None:
    """Who reads the resource's messages, if they are decoded on Arrow; None if it has no Kafka source. `settings`:
    Spark's. Nothing is contacted. Raises SpecError if its Secrets are not here.
    """
    kafka = resource.spec.source.kafka
    if kafka is None:
        return None
    if find_spec(LIBRARY) is None:
        return Reading(None, "confluent-kafka is not installed")
    for name, value in settings.items():
        if name.startswith(_TOKENS) or _TRUST in value:
            return Reading(None, f"{name} is only for Java's client")
    try:
        return Reading(client_of(kafka.bootstrap_servers, source_options(kafka)))
    except NotTranslated as error:
        return Reading(None, str(error))
