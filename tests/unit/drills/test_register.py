"""Nothing that on-call may meet is without a drill."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest_operator.decide.status import ALL_CONDITIONS
from monitoring.alerts import ALERTS
from support.drills import register
from support.drills.register import COMMANDS, EXIT_CODES, NOT_CAUSED, SITUATIONS, Drill
from support.pages import ROOT, blocks

RUNBOOKS = ROOT / "docs" / "runbooks"
DRILLS = (*EXIT_CODES.values(), *register.CONDITIONS.values(), *COMMANDS.values())


def test_every_alert_fires_in_a_drill_and_is_silent_before_it() -> None:
    names = {alert.name.removeprefix("BucketIngest") for alert in ALERTS}
    fired: set[str] = set()
    for situation in SITUATIONS:
        for names_then in situation.expected.values():
            fired |= names_then
    assert fired == names


def test_every_runbook_page_is_of_an_alert_that_a_drill_fires() -> None:
    pages = {page.stem for page in RUNBOOKS.glob("*.md")} - {"index"}
    assert pages == {alert.slug for alert in ALERTS}


def test_every_exit_code_has_a_drill_or_a_reason_why_not() -> None:
    assert set(EXIT_CODES).isdisjoint(NOT_CAUSED)
    assert {*EXIT_CODES, *NOT_CAUSED} == set(ExitCode)


def test_every_condition_has_a_drill() -> None:
    assert set(register.CONDITIONS) == set(ALL_CONDITIONS)


def test_every_command_of_a_page_is_typed_in_a_drill() -> None:
    for page in RUNBOOKS.glob("*.md"):
        for line in (line for code in blocks(page, "sh") for line in code.splitlines()):
            words = line.split()
            if "=" not in words[0]:  # set for all commands of the pages
                assert words[0] in COMMANDS or " ".join(words[:2]) in COMMANDS, f"{page.name}: {line}"


@pytest.mark.parametrize("drill", DRILLS, ids=lambda each: each.trouble)
def test_a_drills_test_is_there_and_looks_for_what_the_register_says(drill: Drill) -> None:
    file, _, name = drill.test.partition("::")
    path = Path(ROOT / "tests" / file)
    text = path.read_text()
    source = [
        ast.get_source_segment(text, node) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    assert source, f"{drill.test} is not there"
    assert drill.shows in source[0], f"{drill.test} does not look for {drill.shows}"
