"""What a command in a container prints, as its stream brings it: in pieces, to the end, or not at all."""

import time

import pytest

from bucketingest_operator.cli.cluster import _printed
from bucketingest_operator.cli.errors import ClusterError


class Stream:
    """Plays the stream of a command: at each look it has more, and after the last piece it is closed."""

    def __init__(self, *pieces: bytes, stderr: bytes = b"", code: int | None = 0, ends: bool = True) -> None:
        self._pieces = list(pieces)
        self._stderr = stderr
        self._code = code
        self._ends = ends
        self._ready = b""

    def update(self, timeout: float) -> None:
        if self._pieces:
            self._ready += self._pieces.pop(0)

    def is_open(self) -> bool:
        return bool(self._pieces) or not self._ends

    def peek_stdout(self) -> bytes:
        return self._ready

    def read_stdout(self, timeout: float) -> bytes:
        told, self._ready = self._ready, b""
        return told

    def peek_stderr(self) -> bytes:
        return self._stderr

    def read_stderr(self, timeout: float) -> bytes:
        told, self._stderr = self._stderr, b""
        return told

    @property
    def returncode(self) -> int:
        if self._code is None:
            raise TypeError("nobody told")
        return self._code


def printed(stream: Stream, *, seconds: float = 60, bytes_max: int = 100) -> str:
    return _printed(stream, "inspect in d", time.monotonic() + seconds, bytes_max)


def test_pieces_are_put_together_also_in_the_middle_of_a_character_and_after_the_end() -> None:
    whole = "tables: ä".encode()
    assert printed(Stream(whole[:3], whole[3:-1], whole[-1:])) == "tables: ä"


def test_a_command_that_fails_is_told_with_the_last_it_complained_of() -> None:
    with pytest.raises(ClusterError, match="inspect in d failed with 6: error: storage does not answer"):
        printed(Stream(b"x", stderr=b"warning\nerror: storage does not answer\n", code=6))


def test_a_connection_that_ends_without_a_word_is_a_failure() -> None:
    with pytest.raises(ClusterError, match="inspect in d failed: it said nothing"):
        printed(Stream(b"half", code=None))


def test_a_command_that_does_not_end_or_says_too_much_is_left() -> None:
    with pytest.raises(ClusterError, match="not done in time"):
        printed(Stream(ends=False), seconds=-1)
    with pytest.raises(ClusterError, match="more than 100 bytes"):
        printed(Stream(b"x" * 101))
