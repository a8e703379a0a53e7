"""The output of a command in a container: in pieces, complete, or missing."""

import time

import pytest
from kubernetes.client.exceptions import ApiException

from bucketingest_operator.cli.cluster import _printed, why_refused
from bucketingest_operator.cli.errors import ClusterError


class Stream:
    """Plays the stream of a command: each update brings a piece, and after the last one it is closed."""

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
        taken, self._ready = self._ready, b""
        return taken

    def peek_stderr(self) -> bytes:
        return self._stderr

    def read_stderr(self, timeout: float) -> bytes:
        taken, self._stderr = self._stderr, b""
        return taken

    @property
    def returncode(self) -> int:
        if self._code is None:
            raise TypeError("no exit code")
        return self._code


def printed(stream: Stream, *, seconds: float = 60, bytes_max: int = 100) -> str:
    return _printed(stream, "inspect in d", time.monotonic() + seconds, bytes_max)


def test_pieces_are_put_together_also_in_the_middle_of_a_character_and_after_the_end() -> None:
    whole = "tables: ä".encode()
    assert printed(Stream(whole[:3], whole[3:-1], whole[-1:])) == "tables: ä"


def test_a_command_that_fails_is_reported_with_its_last_error_line() -> None:
    with pytest.raises(ClusterError, match="inspect in d failed with 6: error: storage does not answer"):
        printed(Stream(b"x", stderr=b"warning\nerror: storage does not answer\n", code=6))


def test_a_connection_that_ends_without_an_exit_code_is_a_failure() -> None:
    with pytest.raises(ClusterError, match="inspect in d failed: it printed nothing"):
        printed(Stream(b"half", code=None))


def test_a_command_that_exceeds_time_or_size_is_a_failure() -> None:
    with pytest.raises(ClusterError, match="did not end in time"):
        printed(Stream(ends=False), seconds=-1)
    with pytest.raises(ClusterError, match="more than 100 bytes"):
        printed(Stream(b"x" * 101))


HANDSHAKE = (
    "Handshake status 500 Internal Server Error -+-+- {'audit-id': '5e2', 'content-type': 'application/json'} -+-+- "
    r"""b'{"kind":"Status","status":"Failure","message":"container \"driver\" is not running","code":500}\n'"""
)


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (HANDSHAKE, 'container "driver" is not running'),
        ("Handshake status 403 Forbidden -+-+- {'date': 'x'} -+-+- None", "the API server answered 403 Forbidden"),
        ("Connection refused\nmore", "Connection refused"),
    ],
)
def test_why_no_command_can_be_run_is_one_sentence(reason: str, sentence: str) -> None:
    assert why_refused(ApiException(0, reason)) == sentence


def test_a_command_may_end_with_a_code_that_says_what_it_found() -> None:
    found = _printed(Stream(b"!", code=22), "inspect in d", time.monotonic() + 60, 100, (0, 22))
    assert found == "!"
