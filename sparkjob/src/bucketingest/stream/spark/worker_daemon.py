"""The process that Spark forks its Python workers from, with everything that their tasks import already imported: each
worker starts immediately, and they share that memory.

Run by Spark (`spark.python.daemon.module`), never by hand.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401 - what a worker runs
from pyspark.daemon import manager

import bucketingest.stream.micro_batch  # noqa: F401 - the tasks, and the write path with them

if __name__ == "__main__":
    manager()
