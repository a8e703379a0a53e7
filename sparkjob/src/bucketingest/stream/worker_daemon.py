"""The process that Spark forks its Python workers from, with everything that their tasks import already there: each
worker starts at once, and they share that memory.

Run by Spark (`spark.python.daemon.module`), never by hand.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401 - what a worker runs
from pyspark.daemon import manager

import bucketingest.write.bucket_writer
import bucketingest.write.dead_letter_writer
import bucketingest.write.shuffle  # noqa: F401

if __name__ == "__main__":
    manager()
