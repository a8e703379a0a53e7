"""The dead letters of a pipeline's instants: they follow what happens to the instant, wherever they were staged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.history.archived import OPEN_FOR
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.storage import Storage, StorageUnavailable
from bucketingest.write.dead_letters.writer import STAGING_DIRECTORY, discard, publish, staged_instants, withdraw
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import LedgerEntry
from bucketingest.write.instants.writer_identity import WriterIdentity

log = logging.getLogger(__name__)


def all_places(own: str | None, journal: Journal, opened: Callable[[str], Storage]) -> list[Storage]:
    """Where dead letters of the pipeline are, or were before the resource named another place. One of before that is
    gone, or closed to this job, is left out with a word in the log. `own`: the present one, whose errors are raised.
    """
    places = []
    for url in dict.fromkeys((*(() if own is None else (own,)), *journal.letters_places())):
        try:
            place = opened(url)
            place.list_level(STAGING_DIRECTORY)
        except StorageUnavailable:
            raise
        except BucketIngestError as error:
            if url == own:
                raise
            log.error("a former place of dead letters is left out", extra={"place": url, "reason": str(error)})  # noqa: TRY400
        else:
            places.append(place)
    return places


class InstantLetters:
    """Publishes, discards and withdraws dead letters. Every act may be repeated after a failure."""

    def __init__(self, journal: Journal, identity: WriterIdentity) -> None:
        self._journal = journal
        self._identity = identity

    def publish(self, instant: str, entries: Sequence[LedgerEntry]) -> bool:
        """Publish an instant's dead letters, unless they come again with its rows. Returns whether there is a place for
        them.
        """
        again = self._journal.letters_come_again(instant)
        for sequence, entry in enumerate(() if again else entries, start=1):
            if names := [status.file_name for status in entry.statuses if status.rejected]:
                letters = self._place(instant, sequence)
                if letters is None:
                    return False
                publish(letters, self._identity.pipeline, instant, names)
        self.discard(instant)  # what other attempts and twins staged of the same rows
        if self._journal.letters_come_again(instant):  # also if that was found while this attempt was paused
            self.withdraw([instant])
        return True

    def discard(self, instant: str) -> None:
        """Delete what is staged for an instant."""
        for letters in self._places(instant):
            discard(letters, self._identity.pipeline, instant)

    def discard_staged(self) -> None:
        """Delete dead letters that late tasks staged for instants that need no work. Those of an instant that the
        journal does not know may be of another table with this pipeline's name, and are deleted when they are a day
        old.
        """
        letters = self._identity.dead_letters
        if letters is None:
            return
        known, now = self._journal.instants(), self._identity.clock()
        for instant in staged_instants(letters, self._identity.pipeline):
            is_old = instant not in known and now - parse_time(instant) > OPEN_FOR
            if is_old or self._journal.is_done(instant):
                discard(letters, self._identity.pipeline, instant)

    def withdraw(self, instants: Collection[str]) -> None:
        """Delete published dead letters of instants whose rows are ingested again: their letters come again too."""
        if not instants:
            return
        own = self._identity.dead_letters
        # The journal may have forgotten where those of an instant are.
        for letters in all_places(None if own is None else own.url, self._journal, self._open):
            names = withdraw(letters, instants)
            if names:
                log.warning("withdrew dead letters that come again", extra={"files": names})

    def _place(self, instant: str, sequence: int) -> Storage | None:
        """Where the dead letters of a micro-batch are staged."""
        intent = self._journal.intent(instant, sequence)
        url = None if intent is None else intent.letters_url
        return self._identity.dead_letters if url is None else self._open(url)

    def _open(self, url: str) -> Storage:
        own = self._identity.dead_letters
        return own if own is not None and own.url == url else self._identity.open_letters(url)

    def _places(self, instant: str) -> list[Storage]:
        """Every place where dead letters of an instant may be: mostly only the configured one."""
        count = len(self._journal.ledgers(instant))
        places = [self._identity.dead_letters, *(self._place(instant, number + 1) for number in range(count + 1))]
        return list({place.url: place for place in places if place is not None}.values())
