"""Hudi as the judge: what Hudi's own Spark bundle reads from a table and does to it, as typed calls for tests."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from support.oracle.environment import (
    OracleEnvironment,
    OracleError,
    OracleTimeoutError,
    OracleUnavailableError,
    find_environment,
)
from support.oracle.writer import HudiWriter

START_SECONDS_MAX = 120.0
REQUEST_SECONDS_MAX = 180.0
STOP_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class HudiInstant:
    """An instant as Hudi lists it; times are 17 digits."""

    requested: str
    completed: str | None
    """None while the instant is pending."""
    action: str
    state: str
    """REQUESTED, INFLIGHT or COMPLETED."""


@dataclass(frozen=True, slots=True)
class Query:
    """A read of one table. `kind`: snapshot, read_optimized or incremental, from the completion time `begin` on."""

    path: Path
    kind: str
    begin: str = ""

    def options(self) -> dict[str, str]:
        """In Hudi's words."""
        begins = {"hoodie.datasource.read.begin.instanttime": self.begin} if self.begin else {}
        return {"hoodie.datasource.query.type": self.kind, **begins}


class HudiOracle:
    """One running oracle. Calls are synchronous; one that fails inside Hudi raises OracleError and leaves it usable."""

    def __init__(
        self, environment: OracleEnvironment, *, heap: str = "1g", start_seconds_max: float = START_SECONDS_MAX
    ) -> None:
        self._start_seconds_max = start_seconds_max
        self._scratch = Path(tempfile.mkdtemp(prefix="bucketingest-oracle-"))
        self._numbers = itertools.count()
        self._log_path = self._scratch / "oracle.log"
        command = [str(environment.python), "-P", str(Path(__file__).with_name("server.py"))]
        protobuf = [] if environment.protobuf is None else [f"{environment.protobuf}/*"]
        command += [
            "--jar",
            ":".join([str(environment.bundle), *protobuf]),
            "--scratch",
            str(self._scratch),
            "--heap",
            heap,
        ]
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env=_environment_of_server(),
                start_new_session=True,  # a group of its own, so that the JVM dies with the interpreter
            )
        self._answers: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=_forward_lines, args=(self._process.stdout, self._answers), daemon=True).start()

    @classmethod
    def start(cls, environment: OracleEnvironment | None = None) -> HudiOracle:
        """Starts an oracle and waits for its session. Raises OracleUnavailableError if there is none or it fails."""
        oracle = cls(environment or find_environment())
        try:
            oracle.wait_until_ready()
        except BaseException:
            oracle.close()
            raise
        return oracle

    def wait_until_ready(self) -> None:
        """Returns once the session is up. Raises OracleUnavailableError, OracleTimeoutError with the log's end."""
        self._receive(self._start_seconds_max)

    @property
    def running(self) -> bool:
        """Whether the oracle's process is alive."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the session; whatever does not end by itself is killed. Safe to call twice."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._process.stdin.close()
                self._process.wait(STOP_SECONDS_MAX)
        self._kill()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def snapshot(self, path: str | Path, options: Mapping[str, str] | None = None) -> pa.Table:
        """The table as it is now, meta columns included; a table without any commit has no columns."""
        return self._read(path, {"hoodie.datasource.query.type": "snapshot", **(options or {})})

    def read_optimized(self, path: str | Path) -> pa.Table:
        """The rows of base files only."""
        return self._read(path, {"hoodie.datasource.query.type": "read_optimized"})

    def incremental(self, path: str | Path, begin: str, end: str | None = None, *, falls_back: bool = True) -> pa.Table:
        """The latest rows of keys changed by commits whose completion time is in (begin, end]: 17 digits, or "0".

        `falls_back`: if a file of these commits is gone, read the table as it is now, which is Hudi's default.
        """
        options = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": begin,
            "hoodie.datasource.read.incr.fallback.fulltablescan.enable": str(falls_back).lower(),
        }
        if end is not None:
            options["hoodie.datasource.read.end.instanttime"] = end
        return self._read(path, options)

    def as_of(self, path: str | Path, instant: str) -> pa.Table:
        """The table as it was at a completion time (17 digits)."""
        return self._read(path, {"as.of.instant": instant})

    def read_all(self, queries: Sequence[Query]) -> list[pa.Table | str]:
        """Many small reads, two at a time, in one request: what each shows, or why it fails. Cheap: nothing of it is
        compiled or written by Spark.
        """
        out = self._scratch / f"results-{next(self._numbers)}"
        out.mkdir()
        try:
            reads = [{"path": str(each.path), "options": each.options()} for each in queries]
            failures = self._ask({"op": "read_all", "reads": reads, "out": str(out)})["failures"]
            return [
                failures[str(at)] if str(at) in failures else pa.ipc.open_file(out / f"{at}.arrow").read_all()
                for at in range(len(queries))
            ]
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def upsert(self, path: str | Path, rows: pa.Table, writer: HudiWriter) -> None:
        """Upserts by Hudi's own writer, which creates the table if there is none."""
        self._write(path, rows, writer.options("upsert"))

    def delete(self, path: str | Path, rows: pa.Table, writer: HudiWriter) -> None:
        """Deletes the keys of `rows` by Hudi's own writer; `rows` need the key, partition and ordering columns."""
        self._write(path, rows, writer.options("delete"))

    def delete_partition(self, path: str | Path, rows: pa.Table, partition_path: str, writer: HudiWriter) -> None:
        """Deletes a partition by Hudi's own writer, whatever `rows` has: any rows of the table's columns."""
        which = {"hoodie.datasource.write.partitions.to.delete": partition_path}
        self._write(path, rows, {**writer.options("delete_partition"), **which})

    def schedule_compaction(self, path: str | Path, writer: HudiWriter) -> pa.Table:
        """Puts a compaction plan on the timeline: what the procedure says (instant, state)."""
        return self._compaction("schedule", path, writer)

    def run_compaction(self, path: str | Path, writer: HudiWriter, instant: str | None = None) -> pa.Table:
        """Runs one pending compaction plan; None: it schedules what is not in a pending plan and runs that, or, if
        there is nothing to schedule, every pending plan.
        """
        if instant is None:
            return self._compaction("run", path, writer)
        return self._compaction("execute", path, writer, f", instants => '{instant}'")

    def compact(self, path: str | Path, writer: HudiWriter) -> None:
        """Schedules a compaction of all log files and runs it. Raises OracleError if Hudi found nothing to compact."""
        if self.schedule_compaction(path, writer).num_rows == 0:
            raise OracleError(
                f"Hudi scheduled no compaction of {path}: there are no log files, or none of a completed instant"
            )
        states = self.run_compaction(path, writer)["state"].to_pylist()
        if not states or set(states) != {"COMPLETED"}:
            raise OracleError(f"the compaction of {path} ended as {states}, not COMPLETED")

    def clean(self, path: str | Path, writer: HudiWriter, *, retain_commits: int = 1) -> pa.Table:
        """Removes file slices that the newest `retain_commits` commits do not need: one row per clean that was done."""
        conf = writer.session_conf()
        name = f"cleaned_{next(self._numbers)}"  # this procedure knows tables of the catalog only
        self.sql(f"CREATE TABLE {name} USING hudi LOCATION {_quoted(path)}")
        try:
            return self.sql(f"call run_clean(table => '{name}', retain_commits => {retain_commits})", conf)
        finally:
            self.sql(f"DROP TABLE {name}")

    def instants(self, path: str | Path) -> list[HudiInstant]:
        """The active timeline as Hudi reads it, oldest request first, pending instants included."""
        answer = self._ask({"op": "instants", "path": str(path)})
        return [HudiInstant(**instant) for instant in answer["instants"]]

    def bucket_counts(self, expressions: str, default: int, partitions: Sequence[str]) -> list[int]:
        """The bucket count of each partition, by the rules of Hudi's partition-level bucket index.

        Call it before Hudi's writer works with new rules: its tasks put them into a map without a lock (1.2.0), and of
        two that do so at once one fails.
        """
        request = {"op": "bucket_counts", "expressions": expressions, "default": default, "partitions": [*partitions]}
        return list(self._ask(request)["counts"])

    def bloom_filter_finds(self, text: str, keys: Sequence[str]) -> list[bool]:
        """Whether Hudi finds each key in a simple bloom filter, given as a base file's footer has it."""
        answer = self._ask({"op": "bloom_filter_finds", "text": text, "keys": list(keys)})
        return [bool(found) for found in answer["found"]]

    def from_protobuf(self, values: pa.Array, descriptors: Path, message: str) -> pa.Array:
        """What Spark's `from_protobuf` makes of messages; a row of nulls of what it cannot decode."""
        number = next(self._numbers)
        given = self._scratch / f"messages-{number}.parquet"
        pq.write_table(pa.table({"number": pa.array(range(len(values)), pa.int64()), "value": values}), given)
        request = {"op": "from_protobuf", "rows": str(given), "descriptors": str(descriptors), "message": message}
        found = self._rows(request).sort_by("number").column("row").combine_chunks()
        return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found

    def sql(self, statement: str, conf: Mapping[str, str] | None = None) -> pa.Table:
        """Rows of one SQL statement; `conf` is set in the session while it runs."""
        return self._rows({"op": "sql", "statement": statement, "conf": dict(conf or {})})

    def log(self) -> str:
        """What Spark and Hudi have logged so far."""
        return self._log_path.read_text(encoding="utf-8", errors="replace") if self._log_path.exists() else ""

    def _compaction(self, operation: str, path: str | Path, writer: HudiWriter, more: str = "") -> pa.Table:
        procedure = f"call run_compaction(op => '{operation}', path => {_quoted(path)}{more})"
        return self.sql(procedure, writer.session_conf())

    def _read(self, path: str | Path, options: Mapping[str, str]) -> pa.Table:
        return self._rows({"op": "read", "path": str(path), "options": dict(options)})

    def _write(self, path: str | Path, rows: pa.Table, options: Mapping[str, str]) -> None:
        file = self._scratch / f"rows-{next(self._numbers)}.parquet"
        pq.write_table(rows, file)
        try:
            self._ask({"op": "write", "path": str(path), "rows": str(file), "options": dict(options)})
        finally:
            file.unlink()

    def _rows(self, request: Mapping[str, Any]) -> pa.Table:
        out = self._scratch / f"result-{next(self._numbers)}"
        try:
            answer = self._ask({**request, "out": str(out)})
            if not answer["columns"]:
                return pa.table({})
            return pq.read_table(out, partitioning=None).replace_schema_metadata(None)
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._process.stdin is None or not self.running:
            raise OracleUnavailableError(f"the Hudi oracle has ended{self._log_tail()}")
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise OracleUnavailableError(f"the Hudi oracle takes no requests: {error}{self._log_tail()}") from error
        return self._receive(REQUEST_SECONDS_MAX)

    def _receive(self, seconds_max: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=seconds_max)
        except Empty:
            self._kill()
            raise OracleTimeoutError(
                f"no answer from the Hudi oracle in {seconds_max:.0f} s{self._log_tail()}"
            ) from None
        if not line:
            raise OracleUnavailableError(f"the Hudi oracle has ended{self._log_tail()}")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise OracleError(answer["error"], kind=answer["kind"], trace=answer["trace"])
        return answer

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _log_tail(self) -> str:
        return "; the end of its log:\n" + "\n".join(self.log().splitlines()[-30:])


def _environment_of_server() -> dict[str, str]:
    # Variables of the tests' own Spark and Python would load Spark 4 into the oracle.
    foreign: Sequence[str] = (
        "PYTHONPATH",
        "PYTHONHOME",
        "SPARK_HOME",
        "SPARK_CONF_DIR",
        "PYSPARK_PYTHON",
        "PYSPARK_SUBMIT_ARGS",
    )
    return {key: value for key, value in os.environ.items() if key not in foreign} | {"TZ": "UTC"}


def _forward_lines(source: IO[str], lines: SimpleQueue[str]) -> None:
    for line in source:
        lines.put(line)
    lines.put("")  # the end


def _quoted(text: str | Path) -> str:
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"
