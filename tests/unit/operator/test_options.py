"""Options of the operator: the command line first, then the environment."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bucketingest_operator.main import main, parse_options


def test_without_options_the_whole_cluster_is_watched() -> None:
    found = parse_options([], {})
    assert (found.namespace, found.listen, found.log_format) == ((), ":9810", "json")
    assert found.job_settings is None
    assert found.max_restarts == 10


def test_the_environment_counts_where_the_command_line_says_nothing() -> None:
    env = {
        "BUCKETINGEST_NAMESPACE": "a, b",
        "BUCKETINGEST_LISTEN": "[::]:1",
        "BUCKETINGEST_LOG_FORMAT": "text",
        "BUCKETINGEST_JOB_SETTINGS": "/job.yaml",
        "BUCKETINGEST_LEADER_ELECTION_NAMESPACE": "ops",
        "BUCKETINGEST_MAX_RESTARTS": "3",
        "NAMESPACE": "other",
    }
    found = parse_options([], env)
    assert found.namespace == ("a", "b")
    assert (found.listen, found.log_format, found.job_settings) == ("[::]:1", "text", "/job.yaml")
    assert found.leader_election_namespace == "ops"
    assert found.max_restarts == 3
    found = parse_options(["--namespace", "c", "--namespace", "d,c", "--listen", "127.0.0.1:2"], env)
    assert (found.namespace, found.listen) == (("c", "d"), "127.0.0.1:2")


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (["--listen", "nowhere"], {}),
        ([], {"BUCKETINGEST_LOG_FORMAT": "xml"}),
        (["--dance"], {}),
        (["--max-restarts", "0"], {}),
    ],
)
def test_wrong_options_are_refused(
    arguments: list[str], env: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(arguments, env)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.fixture
def logs_as_they_were() -> Iterator[None]:
    names = [None, *logging.root.manager.loggerDict]
    handlers, levels = logging.root.handlers[:], {name: logging.getLogger(name).level for name in names}
    yield
    logging.root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.usefixtures("logs_as_they_were")
def test_wrong_settings_end_the_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("imge: x\n", encoding="utf-8")
    assert main(["--job-settings", str(path), "--log-format", "text"]) == 2
    assert "did you mean image?" in capfd.readouterr().err
