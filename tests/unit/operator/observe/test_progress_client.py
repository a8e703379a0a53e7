"""Asking a driver for its progress: the operator does not wait long, and does not believe every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta

import pytest

from bucketingest.spec.job_report import ProgressReport
from bucketingest_operator.observation import Contact, PodState
from bucketingest_operator.observe.pod_reading import PodSeen
from bucketingest_operator.observe.progress_client import MAX_BYTES, ProgressClient, Talk
from support.http_fake import FakeHandler, FakeServer
from support.operator.observations import NOW, report


class Answerer:
    """Answers every request as a test wants."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.headers: dict[str, str] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(FakeHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(OSError):  # the client closed the connection
                    self.wfile.write(outer.body)

        self.server = FakeServer(Handler)

    def says(self, answer: ProgressReport) -> None:
        self.body = answer.model_dump_json(by_alias=True).encode()


@pytest.fixture
def job() -> Iterator[Answerer]:
    found = Answerer()
    with found.server:
        yield found


def pod(state: PodState = PodState.RUNNING, uid: str = "p1", ip: str | None = "127.0.0.1") -> PodSeen:
    return PodSeen(
        uid=uid,
        namespace="ingest",
        name="orders-1-driver",
        role="driver",
        attempt=1,
        created_at=NOW,
        phase="Running",
        state=state,
        ip=ip,
    )


def ask(job: Answerer, *pods: PodSeen | None, now: datetime = NOW) -> tuple[Talk | None, Contact]:
    """Ask one after the other; returns the talk, and its contact in an observation."""

    async def talk() -> tuple[Talk | None, Contact]:
        found: Talk | None = None
        async with ProgressClient(job.server.port) as client:
            for each in pods:
                found = await client.ask(each, "orders", found)
        return found, Contact() if found is None else found.contact(now)

    return asyncio.run(talk())


def test_an_answer_is_believed(job: Answerer) -> None:
    job.says(report())
    _, contact = ask(job, pod())
    assert contact == Contact(report())
    assert job.asked == ["/progress"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b"{}"),
        (200, b"not JSON"),
        (200, b"{}"),
        (200, report(verdict_reason="x" * MAX_BYTES).model_dump_json(by_alias=True).encode()),
        (302, b""),
        (200, report(name="another").model_dump_json(by_alias=True).encode()),
        (200, report(namespace="another").model_dump_json(by_alias=True).encode()),
    ],
    ids=["503", "no JSON", "no report", "too long", "redirect", "another name", "another namespace"],
)
def test_an_answer_that_is_not_from_this_job_counts_as_silence(job: Answerer, status: int, body: bytes) -> None:
    job.status, job.body = status, body
    job.headers = {"Location": f"http://127.0.0.1:{job.server.port}/elsewhere"} if status == 302 else {}
    _, contact = ask(job, pod())
    assert contact.report is None
    assert contact.unreachable_since is not None
    assert job.asked == ["/progress"]


def test_a_pod_without_an_address_is_silent(job: Answerer) -> None:
    _, contact = ask(job, pod(ip=None))
    assert contact.unreachable_since is not None


def test_a_pod_that_does_not_run_is_not_asked(job: Answerer) -> None:
    _, contact = ask(job, pod(PodState.PENDING))
    assert contact == Contact()
    assert job.asked == []
    assert ask(job, None)[0] is None


@pytest.mark.parametrize("after", [pod(PodState.FAILED), pod(PodState.SUCCEEDED), None])
def test_the_last_answer_of_a_driver_that_has_ended_is_not_kept(job: Answerer, after: PodSeen | None) -> None:
    """Else its lag would be shown, and its commits counted as fresh, until the next driver answers."""
    job.says(report())
    found, contact = ask(job, pod(), after)
    assert contact == Contact()
    assert found is None or found.report is None


def test_silence_starts_once_and_keeps_the_last_answer(job: Answerer) -> None:
    async def talk() -> None:
        job.says(report())
        async with ProgressClient(job.server.port) as client:
            first = await client.ask(pod(), "orders", None)
            job.status = 503
            second = await client.ask(pod(), "orders", first)
            assert second is not None
            since = second.silent_since
            assert since is not None
            third = await client.ask(pod(), "orders", second)
            assert third is not None
            assert third.silent_since == since
            assert third.contact(NOW).report == report()
            job.status = 200
            fourth = await client.ask(pod(), "orders", third)
            assert fourth is not None
            assert fourth.silent_since is None

    asyncio.run(talk())


def test_a_clock_that_is_set_back_does_not_change_the_length_of_a_silence(job: Answerer) -> None:
    async def silence() -> timedelta:
        loop = asyncio.get_running_loop()
        talk = Talk("p1", None, 0, loop.time() - 100, loop.time())
        since = talk.contact(NOW - timedelta(hours=5)).unreachable_since
        assert since is not None
        return NOW - timedelta(hours=5) - since

    assert round(asyncio.run(silence()).total_seconds()) == 100


def test_another_pod_starts_another_talk(job: Answerer) -> None:
    job.says(report())
    found, contact = ask(job, pod(), pod(PodState.PENDING, uid="p2"))
    assert found is not None
    assert found.pod == "p2"
    assert contact == Contact()


def test_a_silence_counts_up_to_the_last_question_and_a_long_one_makes_questions_rare() -> None:
    async def silence() -> None:
        clock = asyncio.get_running_loop().time()
        talk = Talk("p1", None, 0, clock - 100, clock - 70)
        since = talk.contact(NOW).unreachable_since
        assert since is not None
        assert round((NOW - since).total_seconds()) == 30
        assert talk.rest == 0
        talk.asked_at = clock
        assert talk.rest > 0

    asyncio.run(silence())


def test_an_older_answer_has_its_time() -> None:
    async def contact() -> None:
        talk = Talk("p1", report(), asyncio.get_running_loop().time() - 10)
        read_at = talk.contact(NOW).read_at
        assert read_at is not None
        assert round((NOW - read_at).total_seconds()) == 10

    asyncio.run(contact())
