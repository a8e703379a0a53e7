"""Entry point of the `bucketingest` script. On a cluster a driver's JVM starts before the command and PySpark are
imported.

The JVM needs longer than everything else of a start, and two of three seconds of this process's imports need no JVM.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Run the command line."""
    start_jvm(sys.argv[1:])
    from bucketingest.cli.main import main as run

    run()


def start_jvm(arguments: list[str]) -> None:
    """Start the JVM if this is `run FILE` on a cluster. Whatever is wrong with the file, the command itself says it."""
    if arguments[:1] != ["run"] or len(arguments) != 2 or not os.environ.get("MASTER", "").startswith("k8s://"):
        return
    with suppress(Exception):
        from bucketingest.spec.reading.load import load_file
        from bucketingest.stream.spark.conf import conf_of_run
        from bucketingest.stream.spark.launch import launch

        resource = load_file(Path(arguments[1]), lambda _: None)
        if resource.spec.suspend:
            return
        launched = launch(conf_of_run(resource))
        from bucketingest.stream.spark.session import start_jvm_early

        start_jvm_early(resource, launched)
