"""The error family of the spec layer: a list of problems, so that a user fixes a file in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a spec.

    Attributes:
        field: Dotted path of the field as the user writes it (`spec.table.index.buckets`); "" when no field is meant.
        wrong: What is wrong, to be read after the field's name (`is 0`).
        allowed: What would be right, or "" when `wrong` already says it.
        line: Line in the file, from 1; None when the spec did not come from a file.
    """

    field: str
    wrong: str
    allowed: str = ""
    line: int | None = None


def format_problem(source: str, problem: Problem) -> str:
    """One line for one problem: `FILE:LINE: FIELD: what is wrong; allowed: what would be right`. Parts that it lacks
    are left out, with their separators, as is an empty `source`.
    """
    place = source if problem.line is None or not source else f"{source}:{problem.line}"
    sentence = f"{problem.wrong}; allowed: {problem.allowed}" if problem.allowed else problem.wrong
    return ": ".join(part for part in (place, problem.field, sentence) if part)


class SpecError(BucketIngestError):
    """A spec that cannot be used. Holds every problem found, not only the first.

    Attributes:
        source: Where the spec came from (a file name), or "".
        problems: All problems, in the order of their lines.
    """

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, problems: Sequence[Problem], source: str = "") -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(format_problem(source, problem) for problem in self.problems))
