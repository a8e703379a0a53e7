"""`bucketingest validate --connect`: prints each check of each file; the first that failed has the exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from bucketingest.cli.connect.checking_spark import CheckingSpark
from bucketingest.cli.connect.checks import check_all
from bucketingest.cli.connect.results import PREFLIGHT_FAILED, Check
from bucketingest.cli.options import TERMINATION_LOG_VARIABLE, UnknownFields, load_known
from bucketingest.cli.process.termination_message import Termination, termination_path
from bucketingest.cli.validate import summary
from bucketingest.exit_codes import ExitCode
from bucketingest.redaction import redacted
from bucketingest.spec.errors import SpecError, format_problem


def connect_files(files: Sequence[Path], unknown_fields: UnknownFields) -> ExitCode:
    """Check each file, then whether everything that its run would need answers. Returns the code of the first failure,
    about which it has also written the termination message.
    """
    failed: list[Check] = []
    with CheckingSpark() as spark:
        for file in files:
            failed += _checked(file, unknown_fields, spark)
    if not failed:
        return ExitCode.OK
    message = "; ".join(f"{each.name}: {each.said}" for each in failed)
    chosen = os.environ.get(TERMINATION_LOG_VARIABLE)
    termination = Termination(termination_path(Path(chosen) if chosen else None), redacted, lambda: None)
    termination.write(failed[0].code, message, word=PREFLIGHT_FAILED)
    return failed[0].code


def _checked(file: Path, unknown_fields: UnknownFields, spark: CheckingSpark) -> list[Check]:
    """The checks that failed."""
    try:
        resource = load_known(file, unknown_fields)
    except SpecError as error:
        problems = [format_problem(error.source, problem) for problem in error.problems]
        for each in problems:
            typer.echo(f"error: {each}", err=True)
        return [Check("spec", "; ".join(problems), ExitCode.BAD_INPUT)]
    typer.echo(f"{file}: valid: {summary(resource)}")

    def show(check: Check) -> None:
        if check.code is ExitCode.OK:
            typer.echo(redacted(f"{file}: {check.name}: {check.said}"))
        else:
            typer.echo(redacted(f"error: {file}: {check.name}: {check.said}"), err=True)

    return check_all(resource, spark, show).failed
