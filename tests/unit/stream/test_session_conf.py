"""What can be said of the Spark session without starting one."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from bucketingest.stream import session


def test_jars_come_from_the_folder_that_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.jar", "a.jar", ".ready", "readme.txt"):
        (tmp_path / name).touch()
    monkeypatch.setenv("BUCKETINGEST_JARS", str(tmp_path))

    assert session.connector_jars() == [str(tmp_path / "a.jar"), str(tmp_path / "b.jar")]


def test_jars_come_from_the_cache_folder_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bucketingest" / "jars" / "spark-4.2"
    folder.mkdir(parents=True)
    (folder / "a.jar").touch()
    monkeypatch.delenv("BUCKETINGEST_JARS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert session.connector_jars() == [str(folder / "a.jar")]


def test_a_folder_that_is_not_there_holds_no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUCKETINGEST_JARS", str(tmp_path / "nowhere"))

    assert session.connector_jars() == []


class Conf:
    """A session's settings: None where it has none."""

    def __init__(self, **values: str) -> None:
        self.values = {name.replace("__", "."): value for name, value in values.items()}

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def unset(self, name: str) -> None:
        self.values.pop(name, None)


class Session:
    def __init__(self, conf: Conf) -> None:
        self.conf = conf


def test_a_users_session_has_what_the_write_path_relies_on_and_its_own_settings_afterwards() -> None:
    conf = Conf(spark__sql__session__timeZone="Europe/Berlin", spark__sql__adaptive__enabled="true")
    before = dict(conf.values)

    with contextlib.suppress(KeyError), session.prepared(Session(conf)):  # type: ignore[arg-type]
        assert conf.values == session.REQUIRED_CONF
        raise KeyError  # as when a query cannot be started

    assert conf.values == before


def test_nothing_may_change_the_number_of_write_tasks_or_the_rows_of_equal_input() -> None:
    assert session.REQUIRED_CONF["spark.sql.adaptive.enabled"] == "false"
    assert session.REQUIRED_CONF["spark.sql.session.timeZone"] == "UTC"
