"""Why messages that a task read itself are read again by Spark, and how Kafka's client says that nobody answers."""

from __future__ import annotations

import re
from typing import Final

KAFKA_IS_AWAY: Final = re.compile(  # in the words of Spark, and of kafka-clients 3 and 4
    r"kafka\.common\.errors\.\w*(?:Timeout|Disconnect|Network|BrokerNotAvailable)|node assignment"
    r"|Failed to (?:construct kafka consumer|create new KafkaAdminClient)|Cannot fetch record for offset"
)
"""Found in what a query says that ended because no broker answers."""


class TopicInDoubt(Exception):
    """Messages are lost, or cannot be read here: what is to happen then is Spark's to say."""


class TopicSilent(TopicInDoubt):
    """No message came that must be there, and nobody said why: a partition without leader."""


class BatchTooLarge(TopicInDoubt):
    """A producer's batch of messages is larger than librdkafka unpacks, 100 MB. Java's client unpacks it in the JVM."""
