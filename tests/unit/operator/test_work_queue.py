"""The queue of resources: each at most once, when it is due, never processed twice at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bucketingest_operator.work_queue import WorkQueue
from support import virtual_time


def run(body: Callable[[WorkQueue], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            await body(WorkQueue())

    virtual_time.run(main())


async def nothing_comes(queue: WorkQueue) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await queue.take()


def test_a_key_added_twice_is_taken_once() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add("a")
        queue.add("a")
        assert await queue.take() == "a"
        queue.done("a")
        await nothing_comes(queue)

    run(body)


def test_the_earlier_time_counts() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add("a", 1000)
        queue.add("a", 0.01)
        queue.add("a", 1000)
        assert await queue.take() == "a"
        queue.done("a")
        assert len(queue) == 0

    run(body)


def test_what_is_due_first_comes_first() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add("late", 0.02)
        queue.add("soon", 0.01)
        queue.add("now")
        assert [await queue.take() for _ in range(3)] == ["now", "soon", "late"]

    run(body)


def test_a_key_that_a_worker_has_waits_until_it_is_done() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add("a")
        assert await queue.take() == "a"
        queue.add("a")
        queue.add("b")
        assert await queue.take() == "b"
        await nothing_comes(queue)
        queue.done("a")
        assert await queue.take() == "a"

    run(body)


def test_a_taker_that_waits_is_woken() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add("later", 1000)
        takers = [asyncio.create_task(queue.take()) for _ in range(3)]
        await asyncio.sleep(0)
        for key in "abc":
            queue.add(key)
        assert sorted(await asyncio.gather(*takers)) == ["a", "b", "c"]

    run(body)


def test_what_is_discarded_does_not_come() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add("a")
        queue.discard("a")
        await nothing_comes(queue)
        queue.add("a")
        assert await queue.take() == "a"

    run(body)


def test_overdue_counts_only_keys_that_no_worker_has() -> None:
    async def body(queue: WorkQueue) -> None:
        assert queue.overdue == 0
        queue.add("a")
        queue.add("b", 1000)
        await asyncio.sleep(0.01)
        assert queue.overdue > 0
        await queue.take()
        queue.add("a")
        assert queue.overdue == 0

    run(body)


def test_of_what_is_due_the_group_with_the_fewest_workers_comes_first() -> None:
    async def body(_: WorkQueue) -> None:
        queue = WorkQueue(lambda key: key[0])
        for number in range(50):
            queue.add(f"a{number:02}")
        assert [await queue.take() for _ in range(3)] == ["a00", "a01", "a02"]
        queue.add("b0")
        queue.add("b1")
        assert [await queue.take() for _ in range(2)] == ["b0", "b1"]
        assert await queue.take() == "a03"
        for key in ("a00", "a01", "a02", "a03"):
            queue.done(key)
        assert await queue.take() == "a04"

    run(body)


def test_what_is_discarded_while_it_waits_for_its_turn_comes_only_when_it_is_added_again() -> None:
    async def body(queue: WorkQueue) -> None:
        queue.add("a")
        queue.add("b")
        assert await queue.take() == "a"
        queue.discard("b")
        await nothing_comes(queue)
        queue.add("b", 0.01)
        assert await queue.take() == "b"
        await nothing_comes(queue)

    run(body)
