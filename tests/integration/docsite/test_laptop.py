"""What README and the quick start have people type on a laptop, typed: the same commands, files and order."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bucketingest.cli.main import call
from bucketingest.exit_codes import ExitCode
from devservers.kafka import KafkaBroker
from devservers.produce import produce
from support.jobs.command_process import CommandProcess, run_command
from support.pages import ROOT, blocks, typed

PAGES = ("README.md", "docs/quickstart-laptop.md")
PLACE = "/tmp/bucketingest"
"""Where the examples have their tables. Here it is another folder."""
BROKER, ADDRESS = "127.0.0.1:9092", "127.0.0.1:9808"
TOPIC = "orders-of-a-laptop"
ON_A_CLUSTER = {"top", "diagnose"}
ORDER = {
    "order_id": "order-1",
    "amount": "12.50",
    "updated_at": "2026-01-02T03:04:05Z",
    "region": "north",
    "deleted": False,
}


@pytest.fixture
def checkout(tmp_path: Path, kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The examples, with tables and the broker of this test, in the folder where commands are typed."""
    examples = tmp_path / "examples"
    examples.mkdir()
    for file in (ROOT / "examples").glob("*.yaml"):
        text = file.read_text().replace(PLACE, str(tmp_path)).replace(BROKER, kafka_broker.bootstrap_servers)
        (examples / file.name).write_text(text.replace("topics: [orders]", f"topics: [{TOPIC}]"))
    kafka_broker.create_topic(TOPIC)
    produce(kafka_broker.bootstrap_servers, TOPIC, [(b"order-1", json.dumps(ORDER).encode())])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines() -> list[str]:
    """Command lines of the pages for `bucketingest`, each once, without what is said about them."""
    found = (command for page in PAGES for command in typed(ROOT / page, "bucketingest"))
    return list(
        dict.fromkeys(each.text.partition(" #")[0].rstrip() for each in found if each.words[0] not in ON_A_CLUSTER)
    )


def arguments(line: str, folder: Path) -> Iterator[str]:
    """What a shell makes of a line, after the program's name."""
    for word in shlex.split(line, comments=True)[1:]:
        if "*" in word and " " not in word:  # in SQL it is no pattern
            yield from sorted(str(path) for path in folder.glob(word))
        else:
            yield word.replace(PLACE, str(folder)).replace(ADDRESS, "127.0.0.1:0")


def until_committed_then_ctrl_c(words: Sequence[object], log: Path) -> None:
    with CommandProcess(*words, log=log) as process:
        process.wait_until(lambda: '"event": "committed"' in process.output)
        process.signal(signal.SIGINT)
        assert process.wait() == ExitCode.OK, process.output


@pytest.mark.kafka
def test_every_command_for_a_laptop_works_in_the_order_of_the_pages(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = checkout / "log"
    for line in lines():
        words = list(arguments(line, checkout))
        if words[0] == "run":
            until_committed_then_ctrl_c(words, log)
        elif "--connect" in words:  # which has a Spark of its own
            code, output = run_command(*words, log=log)
            assert code == ExitCode.OK, f"{line}\n{output}"
        else:
            assert call(words) == ExitCode.OK, f"{line}\n{capsys.readouterr()}"
    assert (checkout / "orders" / ".hoodie").is_dir()


def test_the_pipeline_of_the_quick_start_runs_as_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = (code for code in blocks(ROOT / "docs" / "quickstart-laptop.md", "yaml") if "kind: BucketIngest" in code)
    assert f"path: {PLACE}/readings" in text
    file = tmp_path / "readings.yaml"
    file.write_text(text.replace(f"{PLACE}/", f"{tmp_path}/"))
    assert call(["validate", str(file)]) == ExitCode.OK
    until_committed_then_ctrl_c(["run", file, "--listen", "127.0.0.1:0"], tmp_path / "run.log")
    assert call(["inspect", str(tmp_path / "readings")]) == ExitCode.OK
    assert "readings" in capsys.readouterr().out
