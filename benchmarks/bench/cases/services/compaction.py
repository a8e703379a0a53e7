"""Our compaction of a table against Hudi's of a copy of it, each on one core: rows per second and resident memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases.comparison import Options, WrongResult, alternate
from bench.cases.services.compaction_table import Shape, hudi_writer
from bench.results_format import Case, Measured, ratios
from bench.sides.client import Run, Side
from bench.sides.start import HEAP, start_compaction, start_hudi, versions
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage

_LOG_SHARE: Final = 20
"""A log file has this part of the base file's rows."""
_MIB: Final = 1024**2


def shapes(rows: int) -> list[Shape]:
    """The cases' tables: base files of half as many rows as an upsert of the other cases has."""
    base = max(rows // 2, _LOG_SHARE)
    log = base // _LOG_SHARE
    return [
        Shape("parquet", wide=False, base_rows=base, log_rows=log),
        Shape("parquet", wide=True, base_rows=base, log_rows=log),
        Shape("avro", wide=False, base_rows=base, log_rows=log),
        Shape("avro", wide=True, base_rows=base, log_rows=log),
        Shape("parquet", wide=True, base_rows=0, log_rows=log),
        Shape("avro", wide=True, base_rows=0, log_rows=log),
    ]


def compaction_cases(name: str, options: Options, *, peer: str) -> Iterator[Case]:
    """One case per table as it is measured, all with the same process of Hudi's."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    core = max(os.sched_getaffinity(0))
    with start_hudi(folder, core=core) as hudi:
        for shape in shapes(options.rows):
            # Ours starts anew for each table, so that the peak of its memory is the table's.
            with start_compaction(core) as ours:
                pending = Pending(shape, folder / shape.name, hudi, ours)
                pending.prepare()
                options.say(f"  {shape.name}: {pending.size_bytes / _MIB:,.0f} MiB")
                pair = alternate(options, pending.by_us, pending.by_hudi)
            case = pair.case(
                f"{name}-{shape.name}",
                _what(pending),
                rows=shape.rows,
                peer=peer,
                ran=versions({"pyarrow": pa.__version__}, hudi.ask(op="versions")),
            )
            yield case.model_copy(update={"notes": _notes(pending, case)})
            shutil.rmtree(pending.folder)
    shutil.rmtree(folder)


@dataclass(slots=True)
class Pending:
    """A table with a compaction plan that Hudi made, and what both sides make of copies of it."""

    shape: Shape
    folder: Path
    hudi: Side
    ours: Side
    instant: str = ""
    size_bytes: int = 0
    """Of all files of the slice."""
    written_bytes: dict[str, int] = field(default_factory=dict)
    """Side to the size of its new base file."""
    peak_bytes: int = 0

    @property
    def table(self) -> Path:
        """The table that is copied."""
        return self.folder / "table"

    def prepare(self) -> None:
        """Write the table and have Hudi plan its compaction. Its base file is Hudi's own."""
        writer = self.shape.writer(self.table)
        if self.shape.base_rows:
            writer.commit(self.shape.base())
            self._call(self.table, "run")
        for rows in self.shape.loads():
            writer.commit(rows)
        self.size_bytes = sum(self.table.joinpath(path).stat().st_size for path in self._slice(self.table))
        (planned,) = self._call(self.table, "schedule").answer["rows"]
        self.instant = planned[0]

    def by_us(self, number: int) -> Run:
        """Compact a copy."""
        copy = self._copy("ours")
        run = self.ours.measure(op="compact", path=str(copy), instant=self.instant)
        self.peak_bytes = run.answer["peak_bytes"]
        (path,) = run.answer["files"]
        self.written_bytes["ours"] = (copy / path).stat().st_size
        (copy / path).rename(self.folder / f"ours-{number}.parquet")
        return run

    def by_hudi(self, number: int) -> Run:
        """Compact a copy, and check that our base file has the same rows: all of them in the first repetition."""
        copy = self._copy("hudi")
        run = self._call(copy, "execute", f", instants => '{self.instant}'")
        if "COMPLETED" not in run.answer["rows"][0]:
            raise WrongResult(f"Hudi's compaction of {copy} ended as {run.answer['rows']}")
        (path,) = self._slice(copy)
        self.written_bytes["Hudi"] = (copy / path).stat().st_size
        ours = self.folder / f"ours-{number}.parquet"
        check_same_rows(ours, copy / path, every_value=number == 0)
        ours.unlink()
        return run

    def _copy(self, side: str) -> Path:
        copy = self.folder / side
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.table, copy)
        os.sync()  # the copy's pages are written now, not while the side is measured
        return copy

    def _call(self, table: Path, operation: str, more: str = "") -> Run:
        writer = hudi_writer()
        call = f"call run_compaction(op => '{operation}', path => '{table}'{more})"
        return self.hudi.measure(op="procedure", call=call, conf={**writer.session_conf(), **writer.extra})

    @staticmethod
    def _slice(table: Path) -> list[str]:
        storage = open_storage(str(table))
        (group,) = load_file_view(storage, Timeline.load(storage)).groups
        assert group.latest is not None, "a file group has a slice"
        base = [group.latest.base_file.path] if group.latest.base_file else []
        return base + [log.path for log in group.latest.log_files]


def check_same_rows(ours: Path, hudis: Path, *, every_value: bool) -> None:
    """Raises WrongResult unless both base files have as many rows, and, if `every_value`, the same ones.

    The file name that each row names, and the order of the rows, may differ.
    """
    counts = [pq.read_metadata(path).num_rows for path in (ours, hudis)]
    if counts[0] != counts[1]:
        raise WrongResult(f"our base file has {counts[0]} rows, Hudi's {counts[1]}")
    if not every_value:
        return
    columns = [name for name in pq.read_schema(ours).names if name != META_COLUMNS[4]]
    key = [(META_COLUMNS[2], "ascending")]
    first, second = (pq.read_table(path, columns=columns).sort_by(key) for path in (ours, hudis))
    second = second.cast(first.schema.remove_metadata())
    different = [name for name in columns if not first[name].equals(second[name])]
    if different:
        raise WrongResult(f"our base file and Hudi's differ in columns {', '.join(different)}")


def _what(pending: Pending) -> str:
    shape = pending.shape
    base = f"a base file of {shape.base_rows:,} rows (Hudi's, Zstandard) and " if shape.base_rows else ""
    return (
        f"Compaction of one file group: {base}{shape.logs} log files of {shape.log_rows:,} rows ({shape.log_block} log "
        f"blocks, {len(shape.schema)} columns), {pending.size_bytes / _MIB:,.0f} MiB on the local file system, into a "
        f"base file (Zstandard on both sides). Each side may use one and the same core, garbage collection and "
        f"compilation included; heap {HEAP}, Spark local[1]. The rows are those of the base file and the log files. "
        "Measured: ours from opening the table to the commit's content, the base file stored; Hudi's from the call of "
        "run_compaction on the same plan, made before, to its return. Neither includes the start of a process."
    )


def _notes(pending: Pending, case: Case) -> tuple[str, ...]:
    rates = [
        Measured.of(side.name, [case.rows / seconds for seconds in side.cpu_seconds]) for side in (case.ours, case.peer)
    ]
    ratio, (low, high) = ratios(rates[0], rates[1], higher_is_better=True)
    medians = f"ours {rates[0].median:,.0f}, Hudi {rates[1].median:,.0f}"
    sizes = ", ".join(f"{side} {size / _MIB:,.0f} MiB" for side, size in sorted(pending.written_bytes.items()))
    return (
        # Other work on the machine changes the time of either side, hardly what it costs.
        f"rows per CPU second: {medians}: {ratio:.1f}x ({low:.1f} to {high:.1f})",
        f"peak resident memory of our process: {pending.peak_bytes / _MIB:,.0f} MiB",
        f"size of the new base file: {sizes}; the rows of the warm-up's were compared, value by value",
    )
