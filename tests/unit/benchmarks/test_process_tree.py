from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from bench.sides import process_tree as tree
from bench.sides.process_tree import ProcessInfo, cpu_seconds, peak_rss_bytes, process_tree, pss_bytes

BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"


def test_the_tree_holds_a_process_and_its_children_but_not_others() -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE) as process:
        while len(found := process_tree(process.pid)) < 2:
            assert process.poll() is None
        assert found[0].pid == process.pid
        assert found[1].parent == process.pid
        assert os.getpid() not in {one.pid for one in found}


def test_cpu_time_of_a_child_that_has_ended_still_counts() -> None:
    before = cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert cpu_seconds(os.getpid()) - before >= 0.25


def test_cpu_time_of_a_child_that_ends_while_the_tree_is_read_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = ProcessInfo(1, 0, "parent", 3.0)
    looks = iter([[parent], [replace(parent, cpu_seconds=13.0)]])  # its child's ten seconds are its own afterwards
    monkeypatch.setattr(tree, "process_tree", lambda _: next(looks))

    assert cpu_seconds(1) == 13.0


def test_the_peak_stays_when_memory_is_given_back() -> None:
    size = 64 * 1024**2
    code = f"block = bytearray(b'x') * {size}\ndel block\nprint('ready', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert peak_rss_bytes(process.pid) > size
        assert 0 < pss_bytes(process.pid) < size


def test_an_ended_process_has_no_memory() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert (peak_rss_bytes(process.pid), pss_bytes(process.pid), process_tree(process.pid)) == (0, 0, [])
