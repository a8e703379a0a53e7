"""Outlives the soak by a moment: when the soak ends, however it ends, whatever it had started is killed.

Run as a script with the run's mark; its standard input is a pipe that only the soak holds open.
"""

import signal
import sys

from soak.job.processes import RUN_MARK, marked, send


def main() -> None:
    """Wait for the end of the soak, then kill until nothing is left."""
    mark = sys.argv[1]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    while left := marked(RUN_MARK, mark):
        send(left, signal.SIGKILL, RUN_MARK, mark)


if __name__ == "__main__":
    main()
