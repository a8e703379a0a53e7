"""The process of table services: it answers, is heard, can be killed, and never outlives its job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pyarrow as pa
import pytest

from bucketingest.hudi.errors import TableNotFound
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.records import Task, Work
from bucketingest.services.errors import WorkerDied
from bucketingest.services.worker import Execute, Looked, Propose
from bucketingest.services.worker_process import KeptProcess, WorkerProcess
from bucketingest.storage import open_storage
from support.tables.local_writer import LocalWriter

ALL = CompactionTriggers(log_files=1)
SCHEMA = pa.schema({"id": "string", "at": pa.int64()})


def ended(worker: WorkerProcess) -> WorkerProcess:
    wait_for(worker.has_ended)
    return worker


def test_it_answers_with_a_proposal(tmp_path: Path) -> None:
    path = tmp_path / "table"
    writer = LocalWriter(path, TableDefinition("t", ("id",), (), "at", buckets=1), SCHEMA)
    writer.commit(pa.table({"id": ["a"], "at": [1]}))
    answer = ended(WorkerProcess(Propose(open_storage(str(path)), ALL))).answer()
    assert isinstance(answer, Looked)
    assert answer.look.proposal is not None
    assert [each.operation.partition_path for each in answer.look.proposal.due] == [""]
    assert answer.look.backlog.log_files == 1


def test_its_error_is_raised_as_it_was(tmp_path: Path) -> None:
    worker = ended(WorkerProcess(Propose(open_storage(str(tmp_path)), ALL)))
    with pytest.raises(TableNotFound):
        worker.answer()


def test_a_process_that_is_kept_carries_out_the_requests_of_several_tables(tmp_path: Path) -> None:
    kept, pids = KeptProcess(), set[int]()
    for name in ("a", "b"):
        LocalWriter(tmp_path / name, TableDefinition("t", ("id",), (), "at", buckets=1), SCHEMA)
        worker = ended(kept.start(Propose(open_storage(str(tmp_path / name)), ALL)))
        assert isinstance(worker.answer(), Looked)
        pids.add(worker.pid)
    missing = ended(kept.start(Propose(open_storage(str(tmp_path / "missing")), ALL)))
    with pytest.raises(TableNotFound):
        missing.answer()
    assert pids == {missing.pid}
    kept.stop()
    assert missing.process.poll() is not None


def test_a_kept_process_that_was_killed_is_replaced(tmp_path: Path) -> None:
    kept = KeptProcess()
    request = Propose(open_storage(str(tmp_path)), ALL)
    first = ended(kept.start(request))
    os.kill(first.pid, signal.SIGKILL)
    wait_for(lambda: first.process.poll() is not None)

    second = ended(kept.start(request))

    with pytest.raises(TableNotFound):
        second.answer()
    assert second.pid != first.pid
    kept.stop()


def test_a_request_does_not_go_to_a_process_that_works_on_one_that_nobody_waits_for(tmp_path: Path) -> None:
    """As its answer would be taken for that of another table."""
    properties = tmp_path / "hangs" / ".hoodie" / "hoodie.properties"
    properties.parent.mkdir(parents=True)
    os.mkfifo(properties)
    kept = KeptProcess()
    hangs = kept.start(Propose(open_storage(str(tmp_path / "hangs")), ALL))

    other = ended(kept.start(Propose(open_storage(str(tmp_path / "missing")), ALL)))

    assert other.pid != hangs.pid
    with pytest.raises(TableNotFound):
        other.answer()
    assert hangs.process.poll() is not None
    kept.stop()


def test_the_memory_of_a_merge_goes_with_its_process(tmp_path: Path) -> None:
    kept, storage = KeptProcess(), open_storage(str(tmp_path))
    merge = ended(kept.start(Execute(storage, Work("20260101000000000", 1, 1, Task.MERGE))))
    assert merge.process.poll() is not None
    assert ended(kept.start(Propose(storage, ALL))).pid != merge.pid
    kept.stop()


def test_a_killed_one_says_how(tmp_path: Path) -> None:
    worker = WorkerProcess(Propose(open_storage(str(tmp_path)), ALL))
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerDied, match="signal 9"):
        ended(worker).answer()


def test_ctrl_c_in_a_terminal_does_not_reach_it(tmp_path: Path) -> None:
    """It is for the job's process group. The job ends its process, whose traceback nobody needs."""
    worker = WorkerProcess(Propose(open_storage(str(tmp_path)), ALL))
    assert os.getpgid(worker.pid) != os.getpgid(0)
    worker.stop()


def test_it_ends_with_its_job(tmp_path: Path) -> None:
    """Its work would take for ever: the table's properties are a pipe that nobody writes."""
    properties = tmp_path / ".hoodie" / "hoodie.properties"
    properties.parent.mkdir()
    os.mkfifo(properties)
    job = (
        "import os, signal, sys\n"
        "from bucketingest.services.compaction.choose import CompactionTriggers\n"
        "from bucketingest.services.worker import Propose\n"
        "from bucketingest.services.worker_process import WorkerProcess\n"
        "from bucketingest.storage import open_storage\n"
        "print(WorkerProcess(Propose(open_storage(sys.argv[1]), CompactionTriggers())).pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", job, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        wait_for(lambda: is_reading(worker, properties))
        process.kill()
    wait_for(lambda: not Path(f"/proc/{worker}").exists() or is_zombie(worker))


def is_reading(pid: int, pipe: Path) -> bool:
    """Whether it has got as far as its work: a process has the pipe open for reading."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:  # nobody reads
        assert Path(f"/proc/{pid}").exists()
        return False
    return True


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = monotonic() + 60
    while not happened():
        assert monotonic() < deadline
        sleep(0.02)
