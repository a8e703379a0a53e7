"""On-call's shell: the commands of a page typed as they stand there, to the real kubectl and the real command line."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster.binaries import find_tool
from support.drills.kubernetes import NAME, NAMESPACE, kubeconfig_of
from support.drills.watched import WatchedPipeline
from support.pages import ROOT, blocks

RUNBOOKS: Final = ROOT / "docs" / "runbooks"
_EXEC: Final = """#!/bin/sh
# A driver's pod is a process of this machine.
case " $* " in
*" exec "*) while [ "$1" != "--" ]; do shift; done; shift; exec "$@" ;;
*) exec {kubectl} "$@" ;;
esac
"""
_COMMAND: Final = '#!/bin/sh\nexec {python} -m bucketingest.cli.main "$@"\n'
_SECONDS: Final = 60
"""For each line: a busy machine is no failure."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What a command printed, both streams together, and how it ended."""

    line: str
    code: int
    output: str


class Shell:
    """A shell with the variables that the runbooks' index sets. It starts once, and is typed into."""

    def __init__(self, environment: dict[str, str], table: str) -> None:
        self._environment = environment
        self._table = table

    def type(self, *lines: str) -> list[Typed]:
        """Type lines one after the other."""
        mark = "--- ended with"
        setup = [line for code in blocks(RUNBOOKS / "index.md", "sh") for line in code.splitlines() if "$(" in line]
        script = "\n".join(
            [
                *setup,
                *(f"{{ {_of_this_table(line, self._table)}\n}}; code=$?; echo; echo '{mark}' $code" for line in lines),
            ]
        )
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", script],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_SECONDS * len(lines),
        )
        found: list[Typed] = []
        printed = ""
        for each in done.stdout.splitlines():
            if each.startswith(mark):
                found.append(Typed(lines[len(found)], int(each.rpartition(" ")[2]), printed))
                printed = ""
            else:
                printed += f"{each}\n"
        assert len(found) == len(lines), done.stdout
        return found

    def follow(self, page: str) -> list[Typed]:
        """Type all of a page."""
        return self.type(*lines_of(page))


def lines_of(page: str) -> list[str]:
    """The commands of a page, in its order."""
    return [line for code in blocks(RUNBOOKS / f"{page}.md", "sh") for line in code.splitlines()]


def _of_this_table(line: str, table: str) -> str:
    return line.replace("/tables/orders", shlex.quote(table))


@contextmanager
def shell_for(pipeline: WatchedPipeline, folder: Path, table: str) -> Iterator[Shell]:
    """A shell whose kubectl sees this pipeline. `table`: in place of the pages' `/tables/orders`."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, text in (
        ("kubectl", _EXEC.format(kubectl=find_tool("kubectl"))),
        ("bucketingest", _COMMAND.format(python=sys.executable)),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    with kubeconfig_of(pipeline, folder) as kubeconfig:
        environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(folder),
            "NAMESPACE": NAMESPACE,
            "NAME": NAME,
        }
        yield Shell(environment, table)
