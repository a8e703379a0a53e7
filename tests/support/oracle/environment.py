"""Where the oracle lives: its interpreter and Hudi's bundle are not part of the tests' own environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PYTHON_VARIABLE = "BUCKETINGEST_ORACLE_PYTHON"
BUNDLE_VARIABLE = "BUCKETINGEST_HUDI_BUNDLE"
PROTOBUF_NAME = "spark-protobuf-3.4"
BUNDLE_NAME = "hudi-spark3.5-bundle_2.12-1.2.0.jar"


class OracleError(Exception):
    """Hudi, asked by a test, failed: the message is Hudi's own, with its causes; `trace` holds the stack trace."""

    def __init__(self, message: str, *, kind: str = "", trace: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.trace = trace


class OracleUnavailableError(OracleError):
    """The oracle is not installed, did not start, or died."""


class OracleTimeoutError(OracleError):
    """The oracle did not answer in time and was killed."""


@dataclass(frozen=True, slots=True)
class OracleEnvironment:
    """The interpreter with Spark 3.5 and the Hudi bundle that it loads."""

    python: Path
    bundle: Path
    protobuf: Path | None = None
    """Folder of Spark's from_protobuf, the newest that can be had for this Spark."""


def find_environment(variables: Mapping[str, str] = os.environ) -> OracleEnvironment:
    """The oracle named by the environment variables, else the one that `make oracle` put into the cache folder.

    Raises OracleUnavailableError naming what is missing and what to run: a test without its judge must fail.
    """
    cache = Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bucketingest"
    python = Path(variables.get(PYTHON_VARIABLE) or cache / "oracle" / "bin" / "python")
    bundle = Path(variables.get(BUNDLE_VARIABLE) or cache / "jars" / BUNDLE_NAME)
    missing = [
        f"{what} ({variable}): no file {path}"
        for what, variable, path in (
            ("interpreter with pyspark 3.5", PYTHON_VARIABLE, python),
            ("Hudi's Spark bundle", BUNDLE_VARIABLE, bundle),
        )
        if not path.is_file()
    ]
    if missing:
        raise OracleUnavailableError(
            f"the Hudi oracle is not installed: {'; '.join(missing)}. "
            f"Run `make oracle`, or point the variables at an existing installation."
        )
    protobuf = cache / "jars" / PROTOBUF_NAME
    return OracleEnvironment(python=python, bundle=bundle, protobuf=protobuf if protobuf.is_dir() else None)
