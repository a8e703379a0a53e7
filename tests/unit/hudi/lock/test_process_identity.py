from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

from bucketingest.hudi.lock.process_identity import ProcessIdentity

PRINT_IDENTITY = """
import json
from bucketingest.hudi.lock.process_identity import ProcessIdentity
print(json.dumps(ProcessIdentity.own().to_json()))
"""


def of_an_ended_process() -> ProcessIdentity:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PRINT_IDENTITY]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ProcessIdentity.from_json(json.loads(printed.stdout))


def test_the_living_are_not_dead() -> None:
    assert not ProcessIdentity.own().is_dead()
    assert ProcessIdentity.own().is_alive()


def test_an_id_that_another_process_has_now_is_not_a_sign_of_life() -> None:
    own = ProcessIdentity.own()
    other = replace(own, life=f"{own.life}0")  # the one that started then is not the one that is there
    assert other.is_dead()
    assert not other.is_alive()


def test_a_process_that_ended_is_dead() -> None:
    ended = of_an_ended_process()
    assert ended.is_dead()
    assert not ended.is_alive()


def test_a_process_that_ended_is_dead_also_before_its_parent_has_looked() -> None:
    program = f"{PRINT_IDENTITY}\nimport sys\nsys.stdout.flush()\nsys.stdin.read()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        identity = ProcessIdentity.from_json(json.loads(process.stdout.readline()))
        assert not identity.is_dead()
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert identity.is_dead()
        assert not identity.is_alive()


def test_nothing_is_said_of_a_process_elsewhere() -> None:
    dead = of_an_ended_process()
    assert dead.life is not None
    boot, _, rest = dead.life.partition("/")
    assert not replace(dead, life=f"other-{boot}/{rest}").is_dead()
    assert not replace(dead, life=None).is_dead()
    own = ProcessIdentity.own()
    assert not replace(own, life=f"other-{own.life}").is_alive()
    assert not replace(own, life=None).is_alive()
