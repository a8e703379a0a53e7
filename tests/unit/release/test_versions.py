"""The version is one number; each place that has it is written by one command."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devservers.locations import PROJECT_ROOT
from release.versions import version, versions, write_version


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for place in versions():
        name = place.partition(": ")[0]
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT_ROOT / name, tmp_path / name)
    return tmp_path


def test_the_project_has_one_version() -> None:
    assert version().count(".") == 2


def test_one_command_writes_every_place(copy: Path) -> None:
    write_version("7.8.9-rc.1", copy)
    assert set(versions(copy).values()) == {"7.8.9-rc.1"}


def test_a_place_that_was_forgotten_is_named(copy: Path) -> None:
    chart = copy / "charts/bucketingest/Chart.yaml"
    chart.write_text(chart.read_text().replace(f'appVersion: "{version(copy)}"', 'appVersion: "9.9.9"'))
    with pytest.raises(ValueError, match=r"(?s)make version VERSION=.*9\.9\.9 +charts/bucketingest/Chart.yaml"):
        version(copy)


@pytest.mark.parametrize("number", ["", "1.2", "v1.2.3", "1.2.3\n", "1.2.3 "])
def test_what_is_no_version_is_refused(number: str, copy: Path) -> None:
    with pytest.raises(ValueError, match="is no version"):
        write_version(number, copy)


@pytest.mark.parametrize("project", ["sparkjob", "operator"])
@pytest.mark.parametrize("name", ["LICENSE", "NOTICE"])
def test_each_wheel_has_the_projects_licence(project: str, name: str) -> None:
    assert (PROJECT_ROOT / project / name).read_bytes() == (PROJECT_ROOT / name).read_bytes()
