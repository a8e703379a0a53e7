"""Nothing that on-call may meet is without a drill."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest_operator.decide.status import ALL_CONDITIONS
from monitoring.alerts import ALERTS
from support.drills import register
from support.drills.register import CAUSED, COMMANDS, EXIT_CODES, REAL, SITUATIONS, Drill
from support.drills.shell import lines_of
from support.drills.troubles import TROUBLES
from support.drills.typed import PAGES
from support.pages import ROOT, blocks

RUNBOOKS = ROOT / "docs" / "runbooks"
DRILLS = (*EXIT_CODES.values(), *register.CONDITIONS.values(), *COMMANDS.values(), *CAUSED)


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


def test_every_runbook_page_is_typed_while_its_alert_fires() -> None:
    names = {alert.slug: alert.name.removeprefix("BucketIngest") for alert in ALERTS}
    assert set(PAGES) == set(names)
    fires = {each.story: frozenset().union(*each.expected.values()) for each in SITUATIONS}
    for page, drill in PAGES.items():
        assert names[page] in fires[drill.story], f"{page} is typed where its alert does not fire"
        assert drill.prints, f"nothing is looked for in what the commands of {page} print"


def test_the_page_about_a_full_disk_is_typed_while_one_is_full() -> None:
    typed = [parts for each in TROUBLES for page, parts in each.pages.items() if page == "../disk-full"]
    assert [
        line for line in lines_of("../disk-full") if not any(part in line for parts in typed for part in parts)
    ] == []


def test_every_command_of_ours_on_a_page_is_typed_on_one_of_them() -> None:
    shown = {line for page in RUNBOOKS.glob("*.md") for line in lines_of(page.stem) if "bucketingest " in line}
    typed = {line for page, drill in PAGES.items() for line in lines_of(page) if drill.types(line)}
    typed |= {line for each in TROUBLES for page, parts in each.pages.items() for line in lines_of(page)
              if any(part in line for part in parts)}  # fmt: skip
    elsewhere = {line for line in shown if line.startswith(("bucketingest diagnose", "bucketingest retry", "helm"))}
    assert shown - typed == elsewhere


def test_what_a_page_looks_for_in_a_log_is_logged() -> None:
    sources = "".join(file.read_text() for file in (ROOT / "sparkjob" / "src").rglob("*.py")).lower()
    system = {"No space left", "error"}
    pages = [*RUNBOOKS.glob("*.md"), ROOT / "docs" / "disk-full.md"]
    patterns = [found for page in pages for found in re.findall(r"logs .*\| grep (?:-i )?(.*)", page.read_text())]
    words = {word for pattern in patterns for word in pattern.strip().strip('"').split("\\|")}
    assert len(words) > len(system)
    assert [word for word in words - system if word.lower() not in sources] == []


def test_every_exit_code_has_a_drill() -> None:
    assert set(EXIT_CODES) == set(ExitCode)


def test_each_real_trouble_is_in_the_register() -> None:
    assert {each.trouble for each in CAUSED if each.test == REAL} == {each.story for each in TROUBLES}


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
