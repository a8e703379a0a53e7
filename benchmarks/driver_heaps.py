"""Which heap a pipeline needs: one job after the other reads the same JSON messages from a broker at full speed, each
with another heap of Spark's JVM, in local mode, so that this one JVM does what driver and executors do.

Kafka and the job share this machine; all messages are in the topic before the first job starts. Printed are rows a
second from the first commit to the last, the share of that time in which the JVM stood still to collect garbage, what
was in use after a collection, and the highest memory of the processes. A heap below what Spark takes is tried, too: how
a job with it fails is part of the answer.

Run it with PYTHONPATH=tests:benchmarks:tools from the project's folder.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from bench.cases.steady.job import PARTITIONS, TOPIC, Visible, commits_of, resource, running_job
from bench.data import ORDERS, write_input
from bench.messages import messages
from bench.sides.process_tree import peak_rss_bytes, process_tree, pss_bytes
from devservers.kafka import KafkaBroker
from devservers.produce import produce

HEAPS: Final = (256, 384, 512, 768, 1024, 2048, 4096)
_KEYS: Final = 500_000
_SPEC_LEAST_MIB: Final = 512
_MIB: Final = 1 << 20
_SAMPLE_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.5
_VARIABLE: Final = "_JAVA_OPTIONS"
"""Of the JVM's options these win."""
_KINDS: Final = {"bucketingest run": "driver", "java": "JVM"}
"""By what a process's command line has; all else are Spark's Python workers."""
_PAUSE: Final = re.compile(r"^\[(\d+)ms\] GC\(\d+\) Pause .* \d+M->(\d+)M\(\d+M\) ([\d.]+)ms$")
_REASON: Final = re.compile(
    r"OutOfMemoryError[^\"\\]*|System memory \d+ must be at least \d+|Spark's JVM is gone[^\"\\]*"
)


@dataclass(frozen=True, slots=True)
class Pauses:
    """What a JVM's log says of its collections in a time.

    Attributes:
        share: Of the time, in which it stood still.
        in_use: MiB of the heap after a collection, at most.
    """

    share: float
    in_use: int


def pauses(log: str, since: float, until: float) -> Pauses:
    """Of a log with `timemillis`, between two moments, seconds since 1970. Pure."""
    found = [match.groups() for match in map(_PAUSE.match, log.splitlines()) if match]
    inside = [(int(used), float(took)) for at, used, took in found if since <= int(at) / 1000 <= until]
    stood = sum(took for _, took in inside) / 1000
    return Pauses(stood / (until - since) if until > since else 0.0, max((used for used, _ in inside), default=0))


@dataclass(slots=True)
class Memory:
    """Samples the processes of a job until the end of the context. Values in bytes."""

    root: int
    highest: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("JVM", "worker", "driver"), 0))
    """Kind of process to the kernel's high-water mark of the largest one."""
    together: int = 0
    """Of all of them at one moment, shared pages counted once."""
    _ends: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None, "started on entry"
        self._ends.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ends.wait(_SAMPLE_SECONDS):
            tree = process_tree(self.root)
            for each in tree:
                kind = next((kind for text, kind in _KINDS.items() if text in each.command), "worker")
                self.highest[kind] = max(self.highest[kind], peak_rss_bytes(each.pid))
            self.together = max(self.together, sum(pss_bytes(each.pid) for each in tree))


def main() -> None:
    """Print a row for each heap."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heaps", type=int, nargs="+", default=HEAPS, help="MiB")
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--turns", type=int, default=1, help="how often each heap has its turn")
    parser.add_argument("--buckets", type=int, default=8, help="in each of 4 partitions of the table")
    parser.add_argument("--batch", type=int, help="source.kafka.maxOffsetsPerTrigger; default: the spec's")
    parser.add_argument("--seconds", type=float, default=120.0, help="a heap that takes longer has failed")
    given = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # it is a file of text
    with TemporaryDirectory(prefix="driver-heaps-") as name, KafkaBroker(Path(name) / "kafka", heap="1g") as broker:
        folder = Path(name)
        _fill(folder, broker, given.rows)
        print("| heap, MiB | rows a second | collecting | in use after a collection | JVM | largest worker |", end="")
        print(" driver's Python | all together | CPU load | |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for turn, heap in itertools.product(range(given.turns), given.heaps):
            print(_measured(folder / f"{turn}-{heap}", broker, heap, given))


def _fill(folder: Path, broker: KafkaBroker, rows: int) -> None:
    broker.create_topic(TOPIC, partitions=PARTITIONS, config={"segment.bytes": str(1 << 28)})
    write_input(ORDERS, folder / "rows", rows=min(rows, _KEYS), seed=2)
    some = list(messages(folder / "rows", ORDERS, "json"))
    produce(broker.bootstrap_servers, TOPIC, itertools.islice(itertools.cycle(some), rows))
    size = sum(len(value) for _, value in some) / len(some)
    print(f"{rows:,} messages of {size:.0f} bytes are in the topic; load {os.getloadavg()[0]:.1f}\n")


def _measured(folder: Path, broker: KafkaBroker, heap: int, given: Any) -> str:
    folder.mkdir()
    kafka = {} if given.batch is None else {"maxOffsetsPerTrigger": given.batch}
    commit = {"interval": "5s", "trigger": "1s"}
    document = resource(folder, broker, commit=commit, buckets=given.buckets, partitioned=True, **kafka)
    size = f"{max(heap, _SPEC_LEAST_MIB)}Mi"
    document["spec"]["spark"] = {"driver": {"memory": size}, "executor": {"instances": 0}}
    with _java_options(folder, heap), running_job(folder, document) as job, Memory(job.pid) as memory:
        failed = _until_done(job, folder, given)
    commits = sorted(commits_of(folder / "table"), key=lambda commit: commit.at)
    since, until = (commits[0].at, commits[-1].at) if commits else (0.0, 0.0)
    log = max((path.read_text() for path in folder.glob("gc-*.log")), key=len, default="")
    stood, high = pauses(log, since, until), {kind: size / _MIB for kind, size in memory.highest.items()}
    cells = [f"{heap}", f"{_rate(commits):,.0f}", f"{stood.share:.1%}", f"{stood.in_use} MiB"]
    cells += [f"{high[kind]:.0f} MiB" for kind in ("JVM", "worker", "driver")]
    cells += [f"{memory.together / _MIB:.0f} MiB", f"{os.getloadavg()[0]:.1f}", failed]
    return f"| {' | '.join(cells)} |"


@contextmanager
def _java_options(folder: Path, heap: int) -> Iterator[None]:
    """What the JVM of a job gets besides: to log its collections, and a heap that the spec does not allow."""
    words = [f"-Xlog:gc:file={folder}/gc-%p.log:timemillis"]
    if heap < _SPEC_LEAST_MIB:
        words += [f"-Xms{heap}m", f"-Xmx{heap}m", f"-XX:MaxNewSize={heap // 4}m"]
    os.environ[_VARIABLE] = " ".join(words)
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def _until_done(job: subprocess.Popen[bytes], folder: Path, given: Any) -> str:
    """Wait until all is committed. Returns why it is not, or ""."""
    deadline = time.monotonic() + given.seconds
    while _rows(commits_of(folder / "table")) < given.rows:
        if job.poll() is not None:
            said = _REASON.findall((folder / "job.log").read_text(errors="replace"))
            return f"failed, exit code {job.returncode}: {said[0] if said else 'see its log'}"
        if time.monotonic() > deadline:
            return f"not done after {given.seconds:.0f} s"
        time.sleep(_POLL_SECONDS)
    return ""


def _rows(commits: Sequence[Visible]) -> int:
    return max((sum(each.ends.values()) for each in commits), default=0)


def _rate(commits: Sequence[Visible]) -> float:
    """From the first commit to the last: without the start."""
    if len(commits) < 2:
        return 0.0
    return (_rows(commits) - _rows(commits[:1])) / (commits[-1].at - commits[0].at)


if __name__ == "__main__":
    main()
