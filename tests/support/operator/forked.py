"""Processes that have what they need imported when they start: an operator imports for seconds of processor time.

Each is a fork of a server that has done nothing but import. So this module itself imports nothing: each of them does.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["bucketingest_operator.main"])


def start(module: str, arguments: Sequence[str], log: Path, environment: dict[str, str]) -> ForkServerProcess:
    """Run `main` of a module as its command would, with its output in `log`."""
    process = _FORKS.Process(target=_run, args=(module, arguments, log, environment), daemon=True)
    process.start()
    return process


def _run(module: str, arguments: Sequence[str], log: Path, environment: dict[str, str]) -> None:
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    sys.exit(importlib.import_module(module).main())
