"""README and docs are correct: links have targets, commands and options exist, examples are valid."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from pydantic import ValidationError

from bucketingest.cli.app import app
from bucketingest.cli.main import add_commands
from bucketingest.spec.fields.schema import inlined_schema
from bucketingest.spec.model import BucketIngest, BucketIngestSpec
from bucketingest.spec.reading.load import load_text
from docsite.measured import NotMeasured, filled
from docsite.reference import reference
from monitoring.alerts import ALERTS
from support.pages import ROOT, Command, anchors, blocks, commands, links, pages


def with_commands_of_others() -> typer.Typer:
    """`bucketingest` with the commands of the operator's package; the real one is unchanged."""
    everything = typer.Typer()
    everything.registered_commands = [*app.registered_commands]
    add_commands(everything)
    return everything


PAGES = pages()
SHOWN = {str(command): command for page in PAGES for command in commands(page)}
GROUP: Any = typer.main.get_command(with_commands_of_others())
TARGETS = set(re.findall(r"^([a-z0-9.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
BASE: dict[str, Any] = {
    "apiVersion": "bucketingest.dev/v1alpha1",
    "kind": "BucketIngest",
    "metadata": {"name": "orders"},
    "spec": {
        "source": {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}},
        "format": {"type": "json", "schema": "id BIGINT"},
        "table": {"path": "/tables/orders", "recordKey": ["id"]},
    },
}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def of(program: str) -> list[Any]:
    return [pytest.param(each, id=shown) for shown, each in SHOWN.items() if each.program == program]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_have_targets(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if page.is_relative_to(ROOT / "docs"):
            assert target.is_relative_to(ROOT / "docs"), f"{link} is not on the site"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def test_modules_that_a_page_names_exist() -> None:
    rooms = [ROOT, *(ROOT / each for each in ("tests", "tools", "benchmarks"))]
    rooms += [ROOT / "sparkjob/src/bucketingest", ROOT / "operator/src", ROOT / "operator/src/bucketingest_operator"]
    named = {(name(page), path) for page in PAGES for path in re.findall(r"`([\w./-]+/[\w-]+\.py)`", page.read_text())}
    assert len(named) > 20, "the form of the pages has changed"
    assert {each for each in named if not any((room / each[1]).is_file() for room in rooms)} == set()


def test_make_targets_exist() -> None:
    words = {word: None for each in SHOWN.values() if each.program == "make" for word in each.words}
    assert {word for word in words if "=" not in word and not word.startswith("-")} <= TARGETS
    outer = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}  # set by the make that may run this test
    done = subprocess.run(
        ["make", "--dry-run", *words],  # at once: each call looks for interpreters and places first
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in outer},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", of("bucketingest"))
def test_commands_of_bucketingest_and_their_options_exist(command: Command) -> None:
    if not command.words or command.words[0].startswith("-"):
        return
    sub = GROUP.commands[command.words[0]]
    known = {option for each in sub.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    used = {word.partition("=")[0] for word in command.words[1:] if re.match(r"--?[a-zA-Z]", word)}
    assert used <= known


@pytest.mark.parametrize("command", [pytest.param(each, id=shown) for shown, each in SHOWN.items()])
def test_files_that_a_command_names_exist(command: Command) -> None:
    for word in command.words:
        if re.match(r"(examples|charts|crds|docs)/", word):
            assert list(ROOT.glob(word)), word


@pytest.mark.parametrize("command", of("kubectl"))
def test_patches_and_paths_fit_the_resource(command: Command) -> None:
    words = command.words
    if "-p" in words:
        document = merged(copy.deepcopy(BASE), json.loads(words[words.index("-p") + 1]))
        BucketIngest.from_document(document)
    for path in re.findall(r"\.spec\.(\w+)", command.text):
        assert path in BucketIngest.model_fields["spec"].annotation.model_fields, path  # type: ignore[union-attr]


def merged(document: Any, change: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(change, dict) or not isinstance(document, dict):
        return change
    return document | {key: merged(document.get(key), value) for key, value in change.items()}


def examples() -> Iterator[Any]:
    for page in PAGES:
        for number, code in enumerate(blocks(page, "yaml")):
            yield pytest.param(code, id=f"{name(page)} {number}")


@pytest.mark.parametrize("code", [*examples()])
def test_examples_are_valid(code: str) -> None:
    document = yaml.safe_load(code)
    if document.get("kind") == "CronJob":
        (container,) = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        assert container["args"][0] in GROUP.commands
    elif document.get("kind") == "ScaledObject":
        spec = document["spec"]
        assert {each: spec["scaleTargetRef"][each] for each in ("apiVersion", "kind")} == {
            each: BASE[each] for each in ("apiVersion", "kind")
        }
        assert spec["minReplicaCount"] > 0, "0 does not stop a pipeline"
        assert "idleReplicaCount" not in spec
    elif "kind" in document:
        load_text(code)
    else:
        BucketIngest.from_document(merged(copy.deepcopy(BASE), {"spec": document}))


def parts() -> Iterator[Any]:
    """Parts of a spec within sentences: `services: {mode: "off"}`, `table.metadataTable: drop`."""
    for page in PAGES:
        for code in sorted(set(re.findall(r"`([a-z][A-Za-z]*(?:\.[A-Za-z]+)*: [^`]+)`", page.read_text()))):
            path, _, value = code.partition(": ")
            first, *inner = path.split(".")
            known = inlined_schema(BucketIngestSpec)["properties"].get(first, {}).get("properties", {})
            if (inner[0] in known if inner else known and value.startswith("{")) and "…" not in value:
                yield pytest.param(path.split("."), value, id=f"{name(page)} {code}")


@pytest.mark.parametrize(("path", "value"), [*parts()])
def test_parts_of_a_spec_within_sentences_are_valid(path: list[str], value: str) -> None:
    document: Any = yaml.safe_load(value)
    for part in reversed(path):
        document = {part: document}
    whole = merged(copy.deepcopy(BASE), {"spec": document})
    # What belongs to it may be missing in so short a text; what it says itself is right.
    place = ("spec", *path)
    assert not [each for each in errors_of(whole) if each["loc"][: len(place)] == place and each["type"] != "rule"]


def errors_of(document: dict[str, Any]) -> list[Any]:
    try:
        BucketIngest.from_document(document)
    except ValidationError as error:
        return list(error.errors())
    return []


def test_the_reference_is_generated_from_the_model() -> None:
    assert (ROOT / "docs" / "reference.md").read_text() == reference(), "run: make crds"


def test_every_page_is_in_the_navigation() -> None:
    def files(nav: Any) -> Iterator[str]:
        for entry in nav:
            if isinstance(entry, str):
                yield entry
            else:
                for part in entry.values():
                    yield from files(part)

    nav = list(files(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    docs = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert set(nav) == docs
    assert len(nav) == len(docs)


def test_the_index_of_runbooks_has_every_alert_with_its_severity() -> None:
    text = (ROOT / "docs" / "runbooks" / "index.md").read_text()
    rows = dict(re.findall(r"^\| (BucketIngest\w+) \| (\w+) \|", text, re.MULTILINE))
    assert rows == {alert.name: alert.severity.value for alert in ALERTS}


RESULT: dict[str, Any] = {
    "case": "upsert",
    "unit": "rows/s",
    "ours": {"median": 352309.7, "name": "bucketingest"},
    "peer": {"median": 48967.9, "name": "Hudi"},
    "machine": {"cores": 2, "cpu": "AMD", "memory_bytes": 24 * 1024**3},
}


def test_a_page_gets_the_last_figures() -> None:
    page = filled("before\n<!-- measured: upsert -->\nafter", [RESULT])
    assert "| `upsert` | 352,310 rows/s | 48,968 rows/s (Hudi) |" in page
    assert "2 cores (AMD), 24 GiB" in page
    assert page.startswith("before\n")
    assert page.endswith("\nafter")


def test_a_small_figure_keeps_its_digits() -> None:
    small = {**RESULT, "unit": "s", "ours": {"median": 0.4612, "name": "bucketingest"}}
    assert "| `upsert` | 0.46 s |" in filled("<!-- measured: upsert -->", [small])


def test_a_figure_that_was_never_measured_is_refused() -> None:
    with pytest.raises(NotMeasured, match="no result for other"):
        filled("<!-- measured: other -->", [RESULT])
