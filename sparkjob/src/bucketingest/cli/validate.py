"""`bucketingest validate`: reads BucketIngest files as `run` does, and stops there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from bucketingest.decode.decoder_choice import way_of
from bucketingest.exit_codes import ExitCode
from bucketingest.spec.errors import SpecError, format_problem
from bucketingest.spec.reading.load import load_file


def validate_files(files: Sequence[Path]) -> None:
    """Print what each file describes, or every problem in it; exit code BAD_INPUT if any has one."""
    wrong = False
    for file in files:
        try:
            resource = load_file(file)
        except SpecError as error:
            wrong = True
            for problem in error.problems:
                typer.echo(f"error: {format_problem(error.source, problem)}", err=True)
        else:
            table = resource.spec.table
            index = table.index
            rules = "".join(f", {each.pattern} {each.buckets}" for each in index.partition_buckets or ())
            places = f"{index.buckets} buckets{rules}" if index.type == "bucket" else "index with a state"
            decoding = f", {way_of(resource)}" if resource.spec.format is not None else ""
            typer.echo(f"{file}: valid: pipeline {resource.pipeline}, table {table.path}, {places}{decoding}")
    if wrong:
        raise typer.Exit(ExitCode.BAD_INPUT)
