"""Looks for Java before Spark is started, since Spark's own message about it does not help."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from bucketingest.cli.errors import MissingDependency

JAVA_MIN: Final = 17
_REMEDY: Final = "On Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless"
_TIMEOUT_SECONDS: Final = 30
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def check_java() -> None:
    """Raise MissingDependency unless the java that Spark would start is there and new enough."""
    java = _java()
    try:
        done = subprocess.run(  # noqa: S603 - the user's own java, no shell
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingDependency(f"{java} cannot be run ({error}). {_REMEDY}") from error
    found = java_version(done.stderr + done.stdout)
    if found is None:
        raise MissingDependency(f"{java} -version shows no version. Java {JAVA_MIN} or newer is needed. {_REMEDY}")
    if found < JAVA_MIN:
        raise MissingDependency(f"{java} is Java {found}, Spark needs {JAVA_MIN} or newer. {_REMEDY}")


def java_version(text: str) -> int | None:
    """The major version in what `java -version` prints (8 for "1.8.0_362"); None if there is none. Pure."""
    match = _VERSION.search(text)
    return int(match[1]) if match else None


def _java() -> str:
    """Spark's rule: $JAVA_HOME/bin/java if the variable is set, else java of the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise MissingDependency(
                f"JAVA_HOME is {home}, but there is no bin/java in it: correct or unset it. {_REMEDY}"
            )
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise MissingDependency(f"Java {JAVA_MIN} or newer is missing: Spark runs on it. {_REMEDY}")
    return found
