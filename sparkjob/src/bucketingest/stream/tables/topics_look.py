"""Looks at the topics of all tables at once: which there are, and where their partitions begin and end now."""

from __future__ import annotations

import logging
import re
import threading
from collections import defaultdict
from contextlib import suppress
from typing import Final

from pyspark.sql import SparkSession

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.spec.fields.source import KafkaSource
from bucketingest.spec.fields.source_secret import ISOLATION, source_options
from bucketingest.spec.job_report import SourceReport
from bucketingest.spec.many_tables import TABLES_MAX
from bucketingest.stream.errors import SourceUnreachable
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.tables.shares import TopicOffsets
from bucketingest.stream.topics.brokers import Brokers, Topic
from bucketingest.stream.topics.continuity import behind, check_same_topics, eaten, offsets_of
from bucketingest.stream.topics.watch import quietly, unanswered
from bucketingest.write.instants.source_range import Offsets, SourceRange

log = logging.getLogger(__name__)

LIST_SECONDS: Final = 15.0
"""Between two lists of the topics: a new one has a table well within 30 s."""
ANSWER_SECONDS: Final = 10.0
_SOON_SECONDS: Final = 2.0
"""What the brokers do not answer within that may be about a topic of an old list that is gone: there is a new list."""


class TopicsLook:
    """Answers from the brokers. Safe to share."""

    def __init__(self, session: SparkSession, source: KafkaSource, board: ProgressBoard, patience: float) -> None:
        """`patience`: seconds without an answer after which a look raises. Raises SpecError (a Secret)."""
        if source.topics is not None:  # one that is missing must not hide the others
            names = "|".join(map(re.escape, source.topics))
            source = source.model_copy(update={"topics": None, "topic_pattern": names})
        options = {name.lower(): str(value) for name, value in source_options(source).items()}
        self._committed_only = options[ISOLATION].lower() == "read_committed"
        self.fails_on_loss = options.get("failondataloss", "true").lower() != "false"
        self._brokers = Brokers(session, source, ANSWER_SECONDS)
        self._board = board
        self._patience = patience
        self._asking = threading.Lock()
        self._topics: dict[str, Topic] = {}
        self._asked: dict[str, Topic] = {}
        """Those whose offsets are asked for: one that gets no answer would keep those of all others."""
        self._silent: dict[str, str] = {}
        self._begins: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._listed: float | None = None
        self._ids: dict[str, str] = {}
        self._ids_asked = -1.0
        self._has_answered = False
        self._silent_since: float | None = None
        self._answering_since: float | None = None
        self.left_out = 0
        """Topics that match and have no table, because there are too many."""

    def look(self) -> dict[str, TopicOffsets] | None:
        """What there is now; None if no broker answers, which the board then shows.

        After more than `patience` seconds without an answer it raises the last error. Until the first answer it raises
        all but SourceUnreachable at once: waiting does not mend a wrong password.
        """
        began = forward_seconds()
        try:
            with self._asking:
                found = self._looked(began)
        except BucketIngestError as error:
            self._listed = None  # a topic may have gone between two questions
            if self._silent_since is None:
                log.warning("Kafka does not answer", extra={"reason": str(error)})
                self._silent_since = began
            silent, self._answering_since = forward_seconds() - self._silent_since, None
            if silent > self._patience or not (self._has_answered or isinstance(error, SourceUnreachable)):
                raise
            self._board.source(unanswered(self._brokers.servers, str(error), silent))
            return None
        self._silent_since, self._has_answered = None, True
        self._answering_since = began if self._answering_since is None else self._answering_since
        answering = began - self._answering_since
        servers = self._brokers.servers
        self._board.source(SourceReport(bootstrap_servers=servers, answered_at=utc_now(), answering_seconds=answering))
        return found

    def _looked(self, began: float) -> dict[str, TopicOffsets]:
        if self._listed is not None and began - self._listed < LIST_SECONDS:
            with suppress(SourceUnreachable):
                return self._offsets(_SOON_SECONDS)
        topics = self._brokers.topics()
        self.left_out = max(0, len(topics) - TABLES_MAX)
        kept = sorted(topics, key=lambda name: (name not in self._topics, name))[:TABLES_MAX]
        self._topics, self._listed = {name: topics[name] for name in kept}, began
        self._silent = {name: _silent(name, topic) for name, topic in self._topics.items() if topic.leaderless}
        self._asked = {name: topic for name, topic in self._topics.items() if name not in self._silent}
        self._begins = _by_topic(self._brokers.begins(self._asked))
        return self._offsets(ANSWER_SECONDS)

    def _offsets(self, seconds: float) -> dict[str, TopicOffsets]:
        ends = _by_topic(self._brokers.ends(self._asked, stable=self._committed_only, seconds=seconds))
        return {
            name: TopicOffsets(topic.id, self._begins[name], ends[name], self._silent.get(name, ""))
            for name, topic in self._topics.items()
        }

    def newest(self, topic: str) -> Offsets:
        """Where the topic's partitions end, open transactions included. Raises as `Brokers`."""
        with self._asking:
            known = {name: each for name, each in self._topics.items() if name == topic}
            return self._brokers.ends(known, stable=False)

    def ids_since(self, moment: float) -> dict[str, str]:
        """The id of each topic that there is, by an answer to a question that was asked after the moment, by the
        forward clock. Raises as `Brokers`.
        """
        with self._asking:
            if self._ids_asked <= moment:
                asked = forward_seconds()
                self._ids, self._ids_asked = self._brokers.ids(), asked
            return self._ids

    def close(self) -> None:
        """Ask no more."""
        quietly(self._brokers.close)


def check_position(look: TopicsLook, topic: str, position: SourceRange | None, now: TopicOffsets) -> None:
    """Raises RangeConflict, SourceDataLost: what follows the position of a topic's table is not there."""
    check_same_topics(position, {topic: now.id})
    known = {place: at for place, at in offsets_of(position).items() if place[0] == topic}
    lost = None
    if look.fails_on_loss:
        lost = eaten(known, {(topic, part): at for part, at in now.begins.items()})
    if any(now.ends.get(part, at) < at for (_, part), at in known.items()):  # it may be an open transaction
        lost = lost or behind(known, look.newest(topic))
    if lost is not None:
        raise lost


def _silent(name: str, topic: Topic) -> str:
    many = "partitions" if len(topic.leaderless) > 1 else "partition"
    return (
        f"the topic {name} has no leader for {many} {', '.join(map(str, topic.leaderless[:10]))}: start the brokers "
        "that have replicas of it; the table goes on then"
    )


def _by_topic(offsets: Offsets) -> defaultdict[str, dict[int, int]]:
    found: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for (topic, partition), at in offsets.items():
        found[topic][partition] = at
    return found
