"""What ends a warm-up is no error of the run: the first micro-batch would meet it too."""

from __future__ import annotations

from typing import Any

from bucketingest.stream.micro_batch import warm_up


class Ended:
    """A session whose JVM is gone."""

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's name
        raise ConnectionRefusedError("the JVM is gone")


def test_a_session_that_has_ended_ends_the_warm_up_quietly() -> None:
    session: Any = Ended()
    thread = warm_up(session)
    thread.join(10)
    assert not thread.is_alive()
    assert thread.daemon, "a run that ends does not wait for executors that never came"
