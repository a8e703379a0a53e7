"""What many tables of one resource cost: CPU while idle, how late commits are under load, memory, how long after a
SIGKILL all tables commit again, and how soon a topic that appears under load has a table. At the end each table is
read: no row is missing, and none is there twice.

Kafka, the producer and the job share this machine. Run it with PYTHONPATH=tests:benchmarks:tools from the project's
folder, or by `make bench-many-tables`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory
from typing import Any, Final

from confluent_kafka import Producer

from bench.cases.comparison import WrongResult
from bench.cases.steady.job import percentile, running_job
from bench.sides.process_tree import process_tree, pss_bytes
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import open_storage
from bucketingest.write.instants.position import ranges_of
from devservers.kafka import KafkaBroker
from support.oracle import hudi_rs

_TICK_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.5
_NAME: Final = "lake"
_TOPIC: Final = {"segment.bytes": str(1 << 26)}
_KINDS: Final = {"driver": "bucketingest run", "JVM": "java", "services": "services.worker"}
"""By what a process's command line has; all else are Spark's Python workers."""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--rate", type=int, default=20_000, help="rows a second of all tables together")
    parser.add_argument("--exponent", type=float, default=2.0, help="of Zipf's law: the n-th topic has n^-exponent")
    parser.add_argument("--idle", type=int, default=60, help="seconds")
    parser.add_argument("--load", type=int, default=120, help="seconds")
    parser.add_argument("--interval", default="30s")
    parser.add_argument("--services", default="inline")
    parser.add_argument("--wait", type=int, default=180, help="seconds at most for all tables to have what was sent")
    given = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # it is a file of text
    with TemporaryDirectory(prefix="many-tables-") as name:
        _run(Path(name), given)


def _run(folder: Path, given: Any) -> None:
    *topics, new = (f"t{number:04d}" for number in range(given.tables + 1))
    with ExitStack() as stack:
        broker = stack.enter_context(KafkaBroker(folder / "kafka", heap="1g"))
        for topic in topics:
            broker.create_topic(topic, config=_TOPIC)
        traffic, more = Traffic(broker.bootstrap_servers, topics), Traffic(broker.bootstrap_servers, [new])
        traffic.send(dict.fromkeys(topics, 10.0), seconds=1)
        document, tables = _resource(folder, broker, given), Tables(folder, [*topics, new])
        with running_job(folder, document) as job:
            began = time.time()
            _wait_for(job, folder, given.wait, lambda: tables.have(traffic.ends))
            firsts = sorted(tables.first_after(topic, began) - began for topic in topics)
            print(f"first start: the first table committed after {firsts[0]:.1f} s, the last after {firsts[-1]:.1f} s")
            _used(job)
            _idle(job, given)
            weights = {topic: (number + 1) ** -given.exponent for number, topic in enumerate(topics)}
            rates = {topic: given.rate * weight / sum(weights.values()) for topic, weight in weights.items()}
            print(f"load: {max(rates.values()):,.0f} to {min(rates.values()):.2f} rows a second and topic")
            before, sent = _cpu(job), sum(traffic.ends.values())
            adding = threading.Timer(given.load / 2, lambda: _add(broker, new, more))
            adding.start()
            with _SampledMemory(job) as memory:
                traffic.send(rates, seconds=given.load)
            _said(before, _cpu(job), given.load)
            print(f"memory: at most {max(memory) / 2**20:,.0f} MiB (PSS of all processes)")
            print(f"sent: {(sum(traffic.ends.values()) - sent) / given.load:,.0f} rows a second")
            adding.join()
            kept = time.time() - given.load
            producing = threading.Thread(target=lambda: traffic.send(rates, seconds=given.wait, until=stop.is_set))
            stop = threading.Event()
            producing.start()
        killed = time.time()
        tables.lateness(traffic.ticks, kept, killed)
        appeared = more.ticks[new][0][0]
        print(f"a further topic under load: its table committed after {tables.first_after(new, 0) - appeared:.1f} s")
        with running_job(folder / "again", document) as job:
            began = time.time()

            def all_again() -> bool:
                return all(tables.first_after(topic, began) < float("inf") for topic in topics)

            try:
                _wait_for(job, folder / "again", given.wait, all_again)
                _used(job)
            finally:
                stop.set()
                producing.join()
            again = sorted(tables.first_after(topic, began) - began for topic in topics)
            print(
                f"after SIGKILL: the first table committed after {again[0]:.1f} s, nine of ten after "
                f"{percentile(again, 90):.1f} s, all after {again[-1]:.1f} s"
            )
            _wait_for(job, folder / "again", given.wait, lambda: tables.have(traffic.ends))
        ends = traffic.ends | more.ends
        wrong = [topic for topic, end in ends.items() if not tables.is_whole(topic, end)]
        print(f"rows: {sum(traffic.ends.values()):,} sent; tables with a lost or doubled row: {wrong or 'none'}")


def _add(broker: KafkaBroker, topic: str, traffic: Traffic) -> None:
    broker.create_topic(topic, config=_TOPIC)
    traffic.send({topic: 10.0}, seconds=1)


def _resource(folder: Path, broker: KafkaBroker, given: Any) -> dict[str, Any]:
    spec = {
        "source": {
            "kafka": {
                "bootstrapServers": broker.bootstrap_servers,
                "topicPattern": "t[0-9]+",
                "columns": {"topic": "t", "partition": "p", "offset": "o"},
            }
        },
        "format": {"type": "json", "schema": "id STRING, n BIGINT"},
        "table": {"path": f"{folder}/tables/{{topic}}", "index": {"buckets": 2}},
        "tables": {},
        "commit": {"interval": given.interval},
        "services": {"mode": given.services},
        "spark": {"driver": {"memory": "1Gi"}, "executor": {"memory": "1Gi"}},
    }
    return {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": _NAME},
        "spec": spec,
    }


class Traffic:
    """Sends messages to all topics, each at its rate, and notes when."""

    def __init__(self, servers: str, topics: Sequence[str]) -> None:
        self.ends = dict.fromkeys(topics, 0)
        self.ticks: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        """Of each topic, moments and the offset behind the last message sent then."""
        self._producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True, "log_level": 2}
        )

    def send(self, rates: Mapping[str, float], *, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Messages a second by topic. Returns when the broker has all. Raises WrongResult."""
        owed = dict.fromkeys(rates, 0.0)
        began = time.monotonic()
        for tick in range(round(seconds / _TICK_SECONDS)):
            if until():
                break
            if (early := began + tick * _TICK_SECONDS - time.monotonic()) > 0:
                time.sleep(early)
            for topic, rate in rates.items():
                owed[topic] += rate * _TICK_SECONDS
                if owed[topic] >= 1:
                    self._send(topic, int(owed[topic]))
                    owed[topic] -= int(owed[topic])
            self._producer.poll(0)
        if left := self._producer.flush(60):
            raise WrongResult(f"the broker did not take {left} messages")

    def _send(self, topic: str, count: int) -> None:
        first = self.ends[topic]
        batch = [{"value": b'{"id": "%d", "n": %d}' % (n, n)} for n in range(first, first + count)]
        if self._producer.produce_batch(topic, batch, partition=0) != count:
            raise WrongResult(f"the producer does not take messages for {topic}")
        self.ends[topic] += count
        self.ticks[topic].append((time.time(), self.ends[topic]))


class Tables:
    """What is committed, by the timelines. A completed file is read once."""

    def __init__(self, folder: Path, topics: Sequence[str]) -> None:
        self._paths = {topic: folder / "tables" / topic for topic in topics}
        self._names: dict[str, frozenset[str]] = {}
        self._seen: defaultdict[str, dict[str, tuple[float, int]]] = defaultdict(dict)

    def commits(self, topic: str) -> list[tuple[float, int]]:
        """When each was there, seconds since 1970, and the offset behind its last message; in order. To look at a
        table without new files costs next to nothing: the job has these cores, too.
        """
        path, seen = self._paths[topic], self._seen[topic]
        timeline = path / TIMELINE_DIRECTORY
        names = frozenset(os.listdir(timeline)) if timeline.exists() else frozenset()  # noqa: PTH208 - it is fast
        if names != self._names.get(topic):
            self._names[topic], storage = names, open_storage(str(path))
            for instant in Timeline.of_file_names(sorted(names)).completed_commits:
                file = path_of(instant)
                if file not in seen and (ranges := ranges_of(storage, file, f"{_NAME}.{topic}")):
                    seen[file] = (path / file).stat().st_mtime, json.loads(ranges[-1].end)[topic]["0"]
        return sorted(seen.values())

    def have(self, ends: Mapping[str, int]) -> bool:
        """Whether all that was sent is committed."""
        return all((found := self.commits(topic)) and found[-1][1] >= end for topic, end in ends.items() if end)

    def first_after(self, topic: str, moment: float) -> float:
        """When the first commit after the moment was there."""
        return next((at for at, _ in self.commits(topic) if at > moment), float("inf"))

    def lateness(self, ticks: Mapping[str, Sequence[tuple[float, int]]], since: float, until: float) -> None:
        """Print how late messages were committed that were sent meanwhile: those that are in no commit are as late as
        they can be.
        """
        late, worst, count = [], [0.0], 0
        for topic, sent in ticks.items():
            commits = self.commits(topic)
            count += sum(1 for at, _ in commits if at >= since)
            mine = [0.0]
            for at, end in sent:
                if since <= at <= until:
                    visible = next((moment for moment, has in commits if has >= end), until)
                    mine.append(visible - at)
            late += mine
            worst.append(max(mine))
        late.sort()
        print(f"commits: {count} in {until - since:.0f} s")
        print(
            f"from sent to committed: median {percentile(late, 50):.1f} s, p99 {percentile(late, 99):.1f} s, by table "
            f"the longest: median {percentile(sorted(worst), 50):.1f} s, at most {max(worst):.1f} s"
        )

    def is_whole(self, topic: str, end: int) -> bool:
        """Whether the table has each offset once, as hudi-rs reads it."""
        return sorted(hudi_rs.snapshot(self._paths[topic]).column("o").to_pylist()) == list(range(end))


def _idle(job: Popen[bytes], given: Any) -> None:
    time.sleep(given.idle / 2)
    before = _cpu(job)
    time.sleep(given.idle)
    after = _cpu(job)
    _said(before, after, given.idle)
    share = (sum(after.values()) - sum(before.values())) / given.idle / given.tables * 100
    print(f"idle: {share:.1%} of a core for 100 tables, services included; threads of the driver: {_threads(job)}")


def _said(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> None:
    shares = {kind: (used - before.get(kind, 0.0)) / seconds for kind, used in after.items()}
    print("CPU: " + ", ".join(f"{kind} {share:.1%}" for kind, share in sorted(shares.items())))


def _used(job: Popen[bytes]) -> None:
    print("CPU seconds until then: " + ", ".join(f"{kind} {used:.1f}" for kind, used in sorted(_cpu(job).items())))


def _cpu(job: Popen[bytes]) -> Mapping[str, float]:
    used: defaultdict[str, float] = defaultdict(float)
    for each in process_tree(job.pid):
        used[next((kind for kind, text in _KINDS.items() if text in each.command), "workers")] += each.cpu_seconds
    return used


def _threads(job: Popen[bytes]) -> int:
    return len(list(Path(f"/proc/{job.pid}/task").iterdir()))


class _SampledMemory:
    """The tree's memory, every second until the end of the context."""

    def __init__(self, job: Popen[bytes]) -> None:
        self._job, self._ends = job, threading.Event()
        self._found: list[int] = [0]
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> list[int]:
        self._thread.start()
        return self._found

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ends.wait(2.0):
            self._found.append(sum(pss_bytes(each.pid) for each in process_tree(self._job.pid)))


def _wait_for(job: Popen[bytes], folder: Path, seconds: float, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        if job.poll() is not None or time.monotonic() > deadline:
            raise WrongResult(f"not after {seconds} s:\n{(folder / 'job.log').read_text()[-3000:]}")
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
