"""Flags of `run`, as they are typed or set in the environment."""

from datetime import timedelta
from pathlib import Path

import pytest

from bucketingest.cli.errors import BadOption
from bucketingest.cli.options import Address, RunOptions, parse_address
from bucketingest.exit_codes import ExitCode
from support.jobs.commands import Command


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0.0.0.0:9808", Address("0.0.0.0", 9808)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        (":9808", Address("", 9808)),
        ("localhost:1", Address("localhost", 1)),
        ("[::1]:9808", Address("::1", 9808)),
    ],
)
def test_an_address(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "9808", "host", "host:", "host:http", "host:-1", "host:65536", "::1:9808", "host:٣"]
)
def test_what_is_not_an_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadOption, match=r"--listen: .* is not an address such as :9808"):
        parse_address(text)


def test_options_from_text() -> None:
    options = RunOptions.of(once=True, grace="1m30s", listen=None, termination_log=Path("x"))
    assert options == RunOptions(once=True, grace=timedelta(seconds=90), termination_log=Path("x"))
    ended = RunOptions.of(once=True, grace="1s", listen=None, termination_log=None, ended_drivers="a-1,a-2")
    assert ended.ended_drivers == {"a-1", "a-2"}


def test_the_default_ends_before_kubernetes_kills() -> None:
    assert timedelta(seconds=20) <= RunOptions().grace < timedelta(seconds=30)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--grace", "25"], "--grace: '25' is not a duration such as 30s"),
        (["--listen", "9808"], "--listen: '9808' is not an address"),
    ],
)
def test_a_wrong_option_is_one_line(command: Command, resource_file: Path, arguments: list[str], said: str) -> None:
    ended = command("run", resource_file, *arguments)
    assert ended.code == ExitCode.BAD_INPUT
    assert ended.err.startswith(f"error: {said}")


def test_an_option_may_come_from_the_environment(
    command: Command, resource_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUCKETINGEST_GRACE", "soon")
    ended = command("run", resource_file)
    assert ended.code == ExitCode.BAD_INPUT
    assert "'soon' is not a duration" in ended.err


@pytest.mark.parametrize("text", ["0s", "500ms"])
def test_a_statement_of_an_audit_has_a_limit(command: Command, resource_file: Path, text: str) -> None:
    ended = command("audit", resource_file, "--against", "postgres://u@db/shop", "--statement-timeout", text)
    assert ended.code == ExitCode.BAD_INPUT
    assert f"--statement-timeout: {text} is too short; it is one second or more" in ended.err
