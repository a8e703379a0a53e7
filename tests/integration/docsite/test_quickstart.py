"""The pipeline that the quick start has people type, taken from the page: valid, committed, stopped, looked at."""

from __future__ import annotations

import signal
from pathlib import Path

from bucketingest.cli.exit_codes import ExitCode
from support.command_process import CommandProcess, run_command
from support.pages import ROOT, blocks


def test_the_pipeline_of_the_quick_start_runs_as_written(tmp_path: Path) -> None:
    (text,) = (code for code in blocks(ROOT / "docs" / "quickstart-laptop.md", "yaml") if "kind: BucketIngest" in code)
    assert "path: /tmp/bucketingest/readings" in text
    file = tmp_path / "readings.yaml"
    file.write_text(text.replace("/tmp/bucketingest/", f"{tmp_path}/"))
    code, output = run_command("validate", file, log=tmp_path / "validate.log")
    assert code == ExitCode.OK, output
    with CommandProcess("run", file, "--listen", "127.0.0.1:0", log=tmp_path / "run.log") as process:
        process.wait_until(lambda: '"event": "committed"' in process.output)
        process.signal(signal.SIGINT)
        assert process.wait() == ExitCode.OK, process.output
    code, output = run_command("inspect", tmp_path / "readings", log=tmp_path / "inspect.log")
    assert code == ExitCode.OK, output
    assert "readings" in output
