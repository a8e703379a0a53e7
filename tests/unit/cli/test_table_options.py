"""Commands on one table of a resource with many: `--topic` says which, and without it the choice is listed."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from bucketingest.cli.app import app
from bucketingest.cli.table_options import TableUrl, TopicOption
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.table.table import TableDefinition, create_table
from bucketingest.storage import open_storage
from support.jobs.commands import Command

TOPICS = ("shop.events", "shop.orders")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A resource's file, and its tables of two topics beside it."""
    for topic in TOPICS:
        definition = TableDefinition(topic.replace(".", "_"), ("id",), (), None, buckets=4)
        create_table(open_storage(f"{tmp_path}/lake/raw-{topic}"), definition)
    (tmp_path / "lake" / "raw-shop.orders~dead_letters").mkdir()
    (tmp_path / "lake" / "other").mkdir()
    file = tmp_path / "lake.yaml"
    file.write_text(f"""\
apiVersion: bucketingest.dev/v1alpha1
kind: BucketIngest
metadata: {{name: lake}}
spec:
  source: {{kafka: {{bootstrapServers: "kafka:9092", topicPattern: "shop[.].*"}}}}
  format: {{type: json, schema: "id STRING"}}
  table: {{path: "{tmp_path}/lake/raw-{{topic}}", recordKey: [id]}}
  tables: {{}}
""")
    return file


DRY: dict[str, tuple[str, ...]] = {
    "inspect": (),
    "rollback": ("--dry-run",),
    "compact": ("--dry-run",),
    "clean": ("--dry-run",),
    "archive": ("--dry-run",),
    "handover": ("--dry-run",),
    "services": (),
}


@pytest.mark.parametrize("name", DRY)
def test_a_topic_names_the_table(command: Command, lake: Path, name: str) -> None:
    ended = command(name, lake, "--topic", "shop.orders", "--json", *DRY[name])
    assert ended.code == ExitCode.OK, ended.err
    assert "raw-shop.orders" in ended.out
    assert "raw-shop.events" not in ended.out


@pytest.mark.parametrize("name", [*DRY, "query"])
def test_without_a_topic_the_choice_is_listed(command: Command, lake: Path, name: str) -> None:
    ended = command(name, lake, *(("SELECT 1",) if name == "query" else DRY[name]))
    assert ended.code == ExitCode.BAD_INPUT
    path = f"{lake.parent}/lake/raw-{{topic}}"
    where = f"{lake.parent}/lake are shop.events, shop.orders"
    assert f"{path} is the path of many tables: name one by --topic; in {where}" in ended.err


def test_a_path_may_be_given_as_the_resource_has_it(command: Command, lake: Path) -> None:
    path = f"{lake.parent}/lake/raw-{{topic}}"
    assert command("inspect", path, "--topic", "shop.orders").code == ExitCode.OK
    assert "in " in command("inspect", path).err
    ended = command("inspect", f"{lake.parent}/none/{{topic}}")
    assert ended.err.rstrip().endswith("name one by --topic")


@pytest.mark.parametrize("topic", ["../other", "a/b", ""])
def test_a_topic_leads_to_no_other_folder(command: Command, lake: Path, topic: str) -> None:
    ended = command("inspect", lake, "--topic", topic)
    assert ended.code == ExitCode.BAD_INPUT
    assert "is no name of a topic" in ended.err


def test_of_one_table_there_is_no_choice(command: Command, lake: Path) -> None:
    ended = command("inspect", f"{lake.parent}/lake/raw-shop.orders", "--topic", "shop.orders")
    assert ended.code == ExitCode.BAD_INPUT
    assert "is the path of one table: leave the option out" in ended.err


def test_catalogs_are_synced_for_a_topic_and_without_any_it_is_said(command: Command, lake: Path) -> None:
    assert "name one by --topic" in command("sync", lake).err
    assert "spec.catalogs names no catalog" in command("sync", lake, "--topic", "shop.orders").err


def test_each_command_that_takes_a_table_takes_a_topic() -> None:
    taking = []
    for each in app.registered_commands:
        assert each.callback is not None
        parameters = inspect.signature(each.callback, eval_str=True).parameters.values()
        kinds = [parameter.annotation for parameter in parameters]
        if TableUrl in kinds and not each.hidden:
            assert TopicOption in kinds, each.callback.__name__
            taking.append(each.callback.__name__)
    assert {*DRY, "query"} - {"services"} <= set(taking)
