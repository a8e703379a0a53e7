"""`validate --connect` as a process with its own Spark: what a run would need is checked, and nothing is written."""

from __future__ import annotations

from bucketingest.exit_codes import ExitCode
from support.jobs.command_process import CommandProcess
from support.jobs.files_pipeline import FilesPipeline


def test_a_file_that_would_run_passes_and_wrong_sql_does_not(pipeline: FilesPipeline) -> None:
    wrong = pipeline.folder / "wrong.yaml"
    text = pipeline.file.read_text()
    sql = next(line for line in text.splitlines() if "sql:" in line)
    wrong.write_text(text.replace(sql, "    sql: SELECT nothing FROM source"))
    before = sorted(pipeline.folder.rglob("*"))
    log = pipeline.folder.with_name("validate.log")
    with CommandProcess("validate", "--connect", pipeline.file, wrong, log=log) as process:
        code = process.wait()
        assert process.left_behind() == []
    said = process.output
    assert code == ExitCode.BAD_INPUT, said
    assert f"{pipeline.file}: table: the columns can be those of a new table" in said
    assert f"error: {wrong}: sql: spec.transform.sql: [UNRESOLVED_COLUMN" in said
    assert f"error: {pipeline.file}" not in said
    assert sorted(pipeline.folder.rglob("*")) == before
