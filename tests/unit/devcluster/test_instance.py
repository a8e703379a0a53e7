"""A node is known again by more than its process id, so that nothing else is ever ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devcluster.errors import ClusterError
from devcluster.instance import VARIABLE, Instance, Running, instance, start_time


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Instance:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = Instance("test")
    found.run.mkdir(parents=True)
    return found


def test_a_node_that_runs_is_found_again(here: Instance) -> None:
    started = start_time(os.getpid())
    assert started is not None
    here.remember(Running(os.getpid(), started, slot=3, with_node=True))
    running = here.running()
    assert running is not None
    assert running.network.host_ip == "10.213.3.1"


def test_a_process_that_has_the_id_of_a_node_that_is_gone_is_not_the_node(here: Instance) -> None:
    started = start_time(os.getpid())
    assert started is not None
    here.remember(Running(os.getpid(), started - 1, slot=0, with_node=True))
    assert here.running() is None


def test_without_a_note_nothing_runs(here: Instance) -> None:
    assert here.running() is None


def test_the_environment_names_the_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "mine")
    assert instance().name == "mine"
    assert instance("other").name == "other"


@pytest.mark.parametrize("name", ["-x", "a/b", "much-too-long-a-name", "Upper"])
def test_a_name_that_no_interface_can_have_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="cannot name a cluster"):
        instance(name)
