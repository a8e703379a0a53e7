"""What really happens to the disk or the store of a table: it is full, read-only, slow, or says nothing for a while."""

from __future__ import annotations

from typing import Final

from bucketingest.exit_codes import ExitCode
from support.drills.disks import SmallDisk
from support.drills.drill import BURNT, Drill, Trouble, says
from support.drills.situation import LATE, alerts
from support.proxy import Proxy

_COMMITS: Final = 3
"""Late ones: an alert ignores fewer."""
_DELAY_SECONDS: Final = 0.2
"""Of each answer: a commit needs a dozen, one after the other."""
_MINUTES: Final = 23
"""Until all alerts on late commits fire. A driver that starts meanwhile, in stretched time, is taken for stuck."""


def _disk(drill: Drill) -> SmallDisk:
    assert drill.disk is not None
    return drill.disk


def _the_disk_is_full(drill: Drill) -> None:
    _disk(drill).fill()
    drill.send(10)
    said = drill.pipeline.fails()
    assert (said.exit_code, "checkpoint" in said.message) == (ExitCode.STORAGE_UNAVAILABLE, True), said
    assert "No space left on device" in said.message
    _no_start_works(drill, ExitCode.STORAGE_UNAVAILABLE)


def _no_start_works(drill: Drill, code: ExitCode) -> None:
    """Neither the next one, nor the newest after some minutes."""
    drill.pipeline.attempts()
    for minutes in (_MINUTES, 0):
        said = drill.pipeline.fails()
        assert (said.exit_code, str(drill.table) in said.message) == (code, True), said
        drill.pipeline.pass_time(minutes)


def _there_is_room(drill: Drill) -> None:
    _disk(drill).make_room()
    drill.pipeline.recovers()


def _the_disk_is_read_only(drill: Drill) -> None:
    _disk(drill).is_read_only(True)
    drill.send(10)
    said = drill.pipeline.fails()
    assert (said.exit_code, "checkpoint" in said.message) == (ExitCode.ACCESS_DENIED, True), said
    _no_start_works(drill, ExitCode.ACCESS_DENIED)


def _it_may_be_written(drill: Drill) -> None:
    _disk(drill).is_read_only(False)
    drill.pipeline.recovers()


def _store(drill: Drill) -> Proxy:
    assert drill.store is not None
    return drill.store


def _the_store_is_slow(drill: Drill) -> None:
    """Each commit takes longer than promised. And once the store says nothing for a while."""
    _store(drill).delay = _DELAY_SECONDS
    for _ in range(_COMMITS):
        drill.send(10)
        drill.rows_are_in()
        drill.pipeline.pass_time(0.5)
    _store(drill).hold_answers()
    drill.send(10)
    drill.pipeline.until(lambda: _store(drill).held > 0)
    _store(drill).let_answers_go()


def _the_store_is_fast(drill: Drill) -> None:
    _store(drill).delay = 0


STORAGE_TROUBLES: Final = (
    Trouble(
        "the disk of the table is full",
        _the_disk_is_full,
        0.5,
        BURNT | LATE | alerts("NotReady", "RestartStorm"),
        {
            "../disk-full": {
                "status.attempts": "No space left on device",
                "logs": "No space left on device",
                "df -h": "/",
                "bucketingest clean": "files would be deleted",
            },
            "restart-storm": {"status.attempts": "StorageUnavailable"},
        },
        _there_is_room,
        drill="drill_on_disk",
    ),
    Trouble(
        "the disk of the table is read-only",
        _the_disk_is_read_only,
        0.5,
        BURNT | LATE | alerts("NotReady", "RestartStorm"),
        says(restart_storm={"status.attempts": "Read-only file system"}),
        _it_may_be_written,
        drill="drill_on_disk",
    ),
    Trouble(
        "the store is slow, and says nothing for a while",
        _the_store_is_slow,
        3,
        alerts("CommitLatencyFastBurn"),
        says(commit_latency_fast_burn={"bucketingest top": "orders", "get bi": "orders", "logs": "committed"}),
        _the_store_is_fast,
        drill="drill_on_s3",
    ),
)
