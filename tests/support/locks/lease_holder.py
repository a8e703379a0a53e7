"""A process that holds a table's lease and checks it on request: something to stop, continue and kill.

Arguments: table URL, storage options as JSON, seconds of validity, seconds by which its wall clock is ahead, whether it
seems to run on another machine. Writes one line when it holds the table, then one
line for each line that it reads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.lock.process_identity import ProcessIdentity
from bucketingest.lease.record import LeaseLost, LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import open_storage


def start_holder(
    url: str,
    options: Mapping[str, str],
    validity: timedelta,
    *,
    ahead: timedelta = timedelta(),
    elsewhere: bool = False,
) -> subprocess.Popen[str]:
    """A new process, started; it has written nothing yet."""
    seconds = [str(validity.total_seconds()), str(ahead.total_seconds())]
    arguments = [url, json.dumps(dict(options)), *seconds, str(elsewhere)]
    return subprocess.Popen(
        [sys.executable, __file__, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(holder: subprocess.Popen[str]) -> str:
    """What the process says when it is asked to check."""
    assert holder.stdin is not None
    holder.stdin.write("check\n")
    holder.stdin.flush()
    return hear(holder)


def hear(holder: subprocess.Popen[str]) -> str:
    """The next line of the process."""
    assert holder.stdout is not None
    return holder.stdout.readline().strip()


def main() -> None:
    """Hold, then check line by line."""
    storage = open_storage(sys.argv[1], json.loads(sys.argv[2]))
    validity = timedelta(seconds=float(sys.argv[3]))
    ahead = timedelta(seconds=float(sys.argv[4]))
    own = ProcessIdentity.own()
    process = replace(own, life=None) if sys.argv[5] == "True" else own
    lease = TableLease.acquire(
        storage,
        LeaseOwner("holder", process=process),
        wait=timedelta(0),
        validity=validity,
        clock=lambda: utc_now() + ahead,
    )
    print("held", flush=True)
    for _ in sys.stdin:
        try:
            lease.check()
        except LeaseLost as lost:
            print(f"lost: {lost}", flush=True)
        else:
            print("held", flush=True)


if __name__ == "__main__":
    main()
