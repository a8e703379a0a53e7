"""What one of many tables reads next must still be there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bucketingest.stream.errors import SourceDataLost
from bucketingest.stream.tables.one_table import OneTable
from bucketingest.stream.tables.shares import TopicOffsets
from bucketingest.stream.topics.continuity import text_of
from bucketingest.write.instants.source_range import Offsets, SourceRange

POSITION = SourceRange("kafka", None, text_of({("a", 0): 5, ("left", 0): 9}), "before", 6)


def check(begin: int, end: int, *, newest: int | None = None, fails: bool = False) -> None:
    """`end`: up to where no transaction is open."""
    ends: Offsets = {("a", 0): end if newest is None else newest}
    look = SimpleNamespace(fails_on_loss=fails, newest=lambda _: ends)
    table = cast("Any", SimpleNamespace(topic="a", _shared=SimpleNamespace(look=look)))
    OneTable._check(table, POSITION, TopicOffsets("", {0: begin}, {0: end}))


@pytest.mark.parametrize("fails", [True, False])
def test_a_topic_that_ends_before_the_position_parks_the_table_whatever_the_options_say(fails: bool) -> None:
    """Its next messages come at offsets that the table has: it would skip them, and go on behind them."""
    with pytest.raises(SourceDataLost, match="ends at offset 3, and the table has everything before 5"):
        check(0, 3, fails=fails)


def test_messages_that_are_gone_are_a_loss_unless_the_options_accept_it() -> None:
    check(7, 9)
    with pytest.raises(SourceDataLost, match="offsets 5 to 6 are gone"):
        check(7, 9, fails=True)


def test_an_open_transaction_is_waited_for() -> None:
    check(0, 3, newest=8, fails=True)
