"""The process that Spark forks its Python workers from, with everything that their tasks import already imported: each
worker starts immediately, and they share that memory.

Run by Spark (`spark.python.daemon.module`), never by hand.
"""

from __future__ import annotations

import gc
import os
from typing import Final

if __name__ == "__main__":
    # As PySpark's manager does, but before the imports, which take a second: Ctrl-C is for the job's process group.
    os.setpgid(0, 0)

import pyspark.worker  # noqa: F401 - what a worker runs
from pyspark.daemon import manager

import bucketingest.stream.micro_batch  # noqa: F401 - the tasks, and the write path with them

_YOUNG_MAX: Final = 20_000
"""Objects before Python looks for cycles among them. By default 700: it would look at each batch of Kafka's messages,
which have none.
"""

if __name__ == "__main__":
    gc.freeze()  # what is imported stays; workers neither look at it nor copy it
    gc.set_threshold(_YOUNG_MAX)
    manager()
