"""A home of Spark in a folder of the caller's, because Spark puts executors' files into its home: PySpark's package."""

from __future__ import annotations

from pathlib import Path

import pyspark


def make_spark_home(folder: Path) -> Path:
    """The folder, which must not exist yet, as the environment variable SPARK_HOME wants it."""
    package = Path(pyspark.__file__).parent
    folder.mkdir(parents=True)
    for name in ("bin", "jars"):
        (folder / name).symlink_to(package / name)
    return folder
