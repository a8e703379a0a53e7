"""The topics of a running pipeline: at each start, and after each micro-batch, the same ones as the table's position
is of. What follows the position must still be there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Self

from pyspark.sql import SparkSession

from bucketingest.decode.kafka.errors import KAFKA_IS_AWAY
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.spec.fields.source import KafkaSource
from bucketingest.spec.fields.source_secret import ISOLATION, source_options
from bucketingest.stream.checkpoint.positions import CheckpointPositions
from bucketingest.stream.errors import QueryFailed, SourceDataLost, SourceUnreachable, TopicsMissing
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.source.sources import read_ranges
from bucketingest.stream.spark.session import own_session
from bucketingest.stream.topics.batch import TopicBatch
from bucketingest.stream.topics.brokers import Brokers, Topic
from bucketingest.stream.topics.continuity import (
    behind,
    check_same_topics,
    deleted,
    eaten,
    held_back,
    offsets_of,
    within,
    without,
)
from bucketingest.stream.topics.watch import GroupPosition, TopicsWatch, quietly
from bucketingest.write.coordinator_api import Start
from bucketingest.write.errors import RangeConflict
from bucketingest.write.instants.source_range import Offsets, SourceRange, before, kafka_offsets, topic_ids

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 10.0
"""Longest wait for an answer where the query needs it."""
LIST_SECONDS: Final = 15.0
"""Longest time between two looks which partitions there are, where none of them has new messages."""
BLIPS_MAX: Final = 10
"""How often in a row a query may end because Kafka is away, while every look says that it is not."""


class TopicsRead:
    """What Kafka is asked for one pipeline. `watch` looks beside; the other methods are the query's threads'."""

    def __init__(
        self,
        brokers: Brokers,
        watch: TopicsWatch,
        batch: Callable[[SourceRange, Sequence[TopicRange]], TopicBatch],
        *,
        committed_only: bool,
        fails_on_loss: bool,
    ) -> None:
        """`batch`: the messages of a micro-batch that is planned here."""
        self._brokers = brokers
        self.watch = watch
        self.batch = batch
        self._known: dict[str, Topic] = {}
        self._listed = float("-inf")
        self._committed_only = committed_only
        self._fails_on_loss = fails_on_loss
        self._ids: dict[str, str] = {}
        self._left: Offsets = {}
        self._blips = 0
        self._told = False

    @classmethod
    def of(cls, session: SparkSession, source: KafkaSource, board: ProgressBoard) -> Self:
        """Of a resource's source. The watch looks from now on. Raises SpecError."""
        options = {name.lower(): str(value) for name, value in source_options(source).items()}
        committed_only = options[ISOLATION].lower() == "read_committed"
        group = None if source.commit_group is None else GroupPosition(source.commit_group, board.position)
        asked = Brokers(session, source, 5.0)
        watch = TopicsWatch(asked, board.source, committed_only=committed_only, group=group)
        watch.start()
        fails = options.get("failondataloss", "true").lower() != "false"
        brokers = Brokers(session, source, ANSWER_SECONDS)
        own = own_session(session)
        batch = partial(TopicBatch, session=own, read=partial(read_ranges, own, source))
        return cls(brokers, watch, batch, committed_only=committed_only, fails_on_loss=fails)

    def continuing(self, start: Start) -> Start:
        """The start, if Kafka can continue it, as Spark's checkpoint has it: without topics that the source no longer
        reads, which the position keeps. Raises as `check`.
        """
        position = start.position
        self._left = {place: at for place, at in offsets_of(position).items() if not self._brokers.reads(place[0])}
        if self._left:
            names = ", ".join(sorted({topic for topic, _ in self._left}))
            log.warning("the position keeps topics that the source no longer reads", extra={"topics": names})
        self._ids = topic_ids(position)  # also of topics that are gone: they may come again, with other messages
        self.check(position if position is not None or start.replay is None else before(start.replay))
        return replace(
            start,
            position=None if position is None else without(position, self._left),
            replay=None if start.replay is None else self._repeatable(without(start.replay, self._left)),
        )

    def _repeatable(self, started: SourceRange) -> SourceRange | None:
        """The micro-batch, if Kafka still has all of its topics, and the source reads them: else what there is now is
        planned anew. Raises SourceDataLost.
        """
        start, ids = kafka_offsets(started.start) or {}, topic_ids(started)
        read = {place[0] for place, end in offsets_of(started).items() if start.get(place) != end}
        gone = read - self._known.keys()
        missed = tuple(filter(self._brokers.reads, gone))
        if self._fails_on_loss and (lost := deleted(started, missed)) is not None:
            raise lost
        again = {topic for topic in read - gone if self._ids[topic] not in {"", ids.get(topic, self._ids[topic])}}
        if not gone and not again:
            return started
        log.warning(
            "topics of the micro-batch that was started are no longer read, gone or made again: it is planned anew",
            extra={"topics": ", ".join(sorted(gone | again))},
        )
        return None

    def check(self, position: SourceRange | None) -> None:
        """Raises SourceUnreachable (nobody answers, or not yet), RangeConflict (another topic has the name),
        SourceDataLost (what follows the position is gone), SourceDenied and others as `Brokers`.
        """
        topics = self._topics(position)
        ids = {name: topic.id for name, topic in topics.items()}
        self._tell_without_ids(ids)
        check_same_topics(position, ids)
        self._ids |= ids
        known = {place: at for place, at in offsets_of(position).items() if place not in self._left}
        if not known:
            return
        found = eaten(known, self._brokers.begins(topics)) or behind(known, self._brokers.ends(topics, stable=False))
        if found is not None and self._fails_on_loss:
            raise found
        if found is not None:
            log.warning("failOnDataLoss is false: reading goes on", extra={"reason": str(found)})
        if self._committed_only and (why := held_back(known, self._brokers.ends(topics, stable=True))) is not None:
            raise SourceUnreachable(why)

    def read_of(self, position: SourceRange | None) -> SourceRange | None:
        """The table's position, as far as the source reads it."""
        return None if position is None else without(position, self._left)

    def ends(self, position: SourceRange | None) -> Offsets:
        """Where each partition ends. Raises as `check`; SourceDataLost, whatever the options say, for one that ends
        before the position.
        """
        if forward_seconds() - self._listed > LIST_SECONDS:
            self._topics(position)
        gone = {topic for topic, _ in offsets_of(position)} - self._known.keys()  # of a pattern nobody misses it
        if self._fails_on_loss and (lost := deleted(position, tuple(gone))) is not None:
            raise lost
        try:
            found = self._brokers.ends(self._known, stable=self._committed_only)
        except SourceUnreachable:
            self._topics(position)  # Kafka's client asks for a topic that was deleted until its time is over
            raise
        if (lost := behind(offsets_of(position), found)) is not None:
            self.check(position)  # it may be an open transaction
            raise lost
        return found

    def begins(self, places: Collection[tuple[str, int]], position: SourceRange | None) -> Offsets:
        """Where these partitions begin, which the position lacks. Raises as `Brokers`; SourceDataLost if one of a topic
        that it has does not begin at 0 any more.
        """
        topics = {topic: self._known[topic] for topic, _ in places}
        found = self._brokers.begins(topics) if topics else {}
        found = {place: found[place] for place in places}
        if self._fails_on_loss and (lost := eaten(offsets_of(position), found)) is not None:
            raise lost
        return found

    def identified(self, source_range: SourceRange) -> SourceRange:
        """A micro-batch's range with all that the position is to have. Raises as `Brokers`."""
        made = within(source_range, self._left, self._ids)
        if any(topic not in self._ids for topic, _ in offsets_of(made)):  # it has come since the last look
            self._ids |= {name: topic.id for name, topic in self._brokers.topics().items()}
            made = within(source_range, self._left, self._ids)
        return made

    def confirm(self, source_range: SourceRange) -> None:
        """The range has been read: raises RangeConflict if not all of it was of the topics that it names."""
        check_same_topics(source_range, {name: topic.id for name, topic in self._topics(source_range).items()})
        self._blips = 0

    def judged(self, failure: QueryFailed, position: SourceRange | None) -> Exception:
        """Why the query failed: what Kafka says of it now, or the failure itself."""
        try:
            self.check(position)
        except (SourceUnreachable, SourceDataLost, RangeConflict) as found:
            return found
        if KAFKA_IS_AWAY.search(f"{failure}\n{failure.details}") and self._blips < BLIPS_MAX:
            self._blips += 1
            return SourceUnreachable(f"Kafka at {self._brokers.servers} did not answer for a while: {failure}")
        return failure

    def close(self) -> None:
        """Look no more."""
        self.watch.stop()
        quietly(self._brokers.close)

    def _topics(self, position: SourceRange | None) -> dict[str, Topic]:
        try:
            found = self._brokers.topics()
        except TopicsMissing as missing:
            read = tuple(topic for topic in missing.topics if self._brokers.reads(topic))
            if self._fails_on_loss and (lost := deleted(position, read)) is not None:
                raise lost from missing
            raise
        self._known, self._listed = found, forward_seconds()
        return found

    def _tell_without_ids(self, ids: dict[str, str]) -> None:
        if ids and not all(ids.values()) and not self._told:
            self._told = True
            log.warning(
                "the brokers give topics no id (Kafka before 2.8): a topic that is deleted and made again under its "
                "name, and has grown beyond the table's position, will not be noticed",
                extra={"bootstrap_servers": self._brokers.servers},
            )


class TopicPositions:
    """The ranges of a query's micro-batches, with their topics."""

    def __init__(self, checkpoint: CheckpointPositions, topics: TopicsRead) -> None:
        self._checkpoint = checkpoint
        self._topics = topics

    def range_of(self, batch_id: int) -> SourceRange:
        """The source range of a micro-batch that Spark is running. Raises CheckpointUnreadable, SourceUnreachable."""
        return self._topics.identified(self._checkpoint.range_of(batch_id))

    def confirm(self, source_range: SourceRange) -> None:
        """Call it when all of the range was read, and before that counts."""
        self._topics.confirm(source_range)
