"""Many tables of one resource, killed again and again: `python -m soak.many --kills 20`.

All tables append, so a row that came twice is there twice. A file is where one of the tables is to be until the last
run: it is parked meanwhile, and has all its rows in the end. The last topic is new after the kills.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from devservers.kafka import KafkaBroker
from support.jobs.command_process import CommandProcess
from support.jobs.many_topics import Topics

TABLES = 7
_GOES_ON_SECONDS = 300.0
"""After what was killed alone."""
_WHOLE = "driver, JVM and workers"
_VICTIMS = {"JVM": "SparkSubmit", "a Python worker": "pyspark.daemon", "the table services": "services.worker"}
"""What is killed alone at times, by its command line."""


def soak_tables(topics: Topics, kills: int, seed: int, say: Callable[[str], None]) -> list[str]:
    """What is wrong after so many kills, in words."""
    chance = random.Random(seed)
    names = [f"k{number}" for number in range(TABLES)]
    parked, new = topics.table(names[-1]), "new"
    topics.make(*names)
    parked.write_text("in the way")
    sent = dict.fromkeys([*names, new], 0)

    def send(name: str, count: int) -> None:
        topics.send(name, sent[name], count)
        sent[name] += count

    for number in range(kills):
        for name in names:
            send(name, chance.choice([0, 1, 50, 300]))
        send(names[0], 1)
        victim, found = _kill(topics, _resource(topics), topics.folder / f"{number}.log", chance, send)
        say(f"kill {number + 1} of {kills}: {victim}, after {found} commits")
    parked.unlink()
    topics.make(new)
    send(new, 10)
    with CommandProcess("run", _resource(topics), "--once", log=topics.folder / "last.log") as process:
        if code := process.wait():
            return [f"the last run ended with {code}:\n{process.output[-3000:]}"]
    return [
        f"{name}: {sent[name]} rows were sent, the table has {len(rows)}, {len(set(rows))} of them different"
        for name in sent
        if sent[name] and (rows := topics.numbers(name)) != list(range(sent[name]))
    ]


def _kill(
    topics: Topics, file: Path, log: Path, chance: random.Random, send: Callable[[str, int], None]
) -> tuple[str, int]:
    """Run the job and kill it. Returns what was killed, and after how many commits."""
    wanted, victim = chance.randint(0, TABLES), chance.choice([_WHOLE, _WHOLE, *_VICTIMS])
    before = _commits(topics)
    with CommandProcess("run", file, log=log) as process:
        if wanted:
            process.wait_until(lambda: _commits(topics) > before)
            process.wait_until(lambda: _commits(topics) - before >= wanted or not chance.randrange(40))
        else:  # at any moment of the start
            process.wait_until(lambda: not chance.randrange(200))
        found = _commits(topics) - before
        alone = [] if victim == _WHOLE else _processes(process, _VICTIMS[victim])
        if alone:
            os.kill(chance.choice(alone), signal.SIGKILL)
            send("k0", 1)
            _until_commit_or_end(topics, process, before + found)
        if process.ended() is None:
            process.signal(signal.SIGKILL)
        process.wait()
    return (victim if alone else _WHOLE), found


def _until_commit_or_end(topics: Topics, process: CommandProcess, before: int) -> None:
    deadline = time.monotonic() + _GOES_ON_SECONDS
    while _commits(topics) <= before and process.ended() is None:
        assert time.monotonic() < deadline, f"it neither goes on nor ends:\n{process.output[-3000:]}"
        time.sleep(0.1)


def _resource(topics: Topics) -> Path:
    document = topics.resource(
        table={"path": f"{topics.folder}/{{topic}}", "recordKey": ["id"], "index": {"buckets": 2}},
        services={"mode": "inline"},
        spark={"driver": {"memory": "1Gi"}, "executor": {"memory": "1Gi"}},
    ).to_document(defaults=False)
    spec: dict[str, Any] = document["spec"]
    spec["source"]["kafka"]["columns"] = {"topic": "t", "partition": "p", "offset": "o"}
    spec["table"].pop("recordKey", None)
    file = topics.folder / "lake.json"
    file.write_text(json.dumps(document))
    return file


def _commits(topics: Topics) -> int:
    return sum(1 for _ in topics.folder.glob(f"{topics.prefix}*/.hoodie/timeline/*.deltacommit"))


def _processes(process: CommandProcess, text: str) -> list[int]:
    return [pid for pid, command in process.alive().items() if text in command]


def main() -> int:
    """Returns 0 if every row is right, else 1."""
    parser = argparse.ArgumentParser(prog="soak.many", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, help="repeats the choices of a run; by default a new one")
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    say(f"seed {seed}")
    with KafkaBroker() as broker, tempfile.TemporaryDirectory(prefix="bucketingest-soak-many-") as folder:
        wrong = soak_tables(Topics(broker, Path(folder)), given.kills, seed, say)
    say("\n".join(wrong or ["every row is there once"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
