"""Commands of the system, run with their output kept for the message when they fail."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import ClusterError

_STARTED = time.monotonic()


def say(what: str) -> None:
    """Tell the person who waits what has just been reached, with the seconds since the start."""
    sys.stderr.write(f"devcluster {time.monotonic() - _STARTED:6.1f} s  {what}\n")
    sys.stderr.flush()


def run(
    command: Sequence[str | Path],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
    shown: bool = False,
) -> str:
    """Run a command to its end and return what it printed.

    Args:
        command: Program and arguments.
        folder: Where it runs.
        environment: The whole environment; by default this process's.
        stdin: Its input.
        shown: Let the person see its output (on stderr) instead of keeping it.

    Raises:
        ClusterError: it failed; the message has the end of its output.
    """
    words = [str(word) for word in command]
    output = sys.stderr if shown else subprocess.PIPE
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, input=stdin, text=True, stdout=output, stderr=output, check=False
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{words[0]} is missing") from error
    if done.returncode:
        said = "" if shown else f":\n{(done.stdout + done.stderr)[-3000:]}"
        raise ClusterError(f"`{' '.join(words[:6])} …` ended with code {done.returncode}{said}")
    return done.stdout or ""


def succeeds(command: Sequence[str | Path]) -> bool:
    """Whether a command ends well; it need not exist."""
    try:
        return not subprocess.run([str(word) for word in command], capture_output=True, check=False).returncode
    except FileNotFoundError:
        return False
