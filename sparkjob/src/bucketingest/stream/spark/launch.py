"""Starts the JVM of a driver in the image: with the class archive, without Spark's launcher, which is a JVM and two
shells of its own, and before PySpark is imported. Elsewhere Spark's launcher starts it.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bucketingest.stream.spark.conf import with_log_configuration

ARCHIVE_VARIABLE: Final = "BUCKETINGEST_CLASS_ARCHIVE"
"""Environment variable: a class archive, which the image has. Beside it are its class path, FILE.classpath, and the
options that Spark's launcher gives each JVM, FILE.options, one a line.
"""
_OPTIONS: Final = "spark.driver.extraJavaOptions"
_CLASS_PATH: Final = "spark.driver.extraClassPath"
_MEMORY: Final = "spark.driver.memory"
_OF_THE_LAUNCHER: Final = ("spark.driver.defaultJavaOptions", "spark.driver.extraLibraryPath")
"""Settings that only Spark's launcher carries out, as it does with these variables and files."""
_VARIABLES_OF_THE_LAUNCHER: Final = (
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_SUBMIT_OPTS",
    "SPARK_TESTING",
    "PYSPARK_GATEWAY_PORT",
)
_FILES_OF_THE_LAUNCHER: Final = ("spark-env.sh", "java-opts")
_START_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Launched:
    """A JVM that starts. It ends when this process ends.

    Attributes:
        process: Of the JVM, in a session of its own.
        output: Descriptor of what it prints.
        folder: Where it writes its address.
    """

    process: subprocess.Popen[bytes]
    output: int
    folder: Path

    def address(self, within: float = _START_SECONDS) -> tuple[int, str]:
        """Port and secret of its gateway, once it has one. Raises OSError if it ends before, or TimeoutError."""
        file, deadline = self.folder / "address", time.monotonic() + within
        try:
            while not file.exists():
                if self.process.poll() is not None:
                    raise OSError(f"it ended with {self.process.returncode}")
                if time.monotonic() > deadline:
                    self.process.kill()
                    raise TimeoutError(f"it did not answer within {within:g} s")
                time.sleep(_POLL_SECONDS)
            content = file.read_bytes()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        # As Java's DataOutput has them: the port, the length of the secret, the secret.
        return int.from_bytes(content[:4]), content[8:].decode()


def launch(conf: Mapping[str, str]) -> Launched | None:
    """Start the JVM; None where Spark's launcher must do it. Raises OSError if there is no java."""
    words = command(conf, os.environ)
    if words is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="jvm-"))
    reading, writing = os.pipe()
    # PySpark gives its JVM these variables, and a pipe: the JVM ends when it breaks.
    variables = {
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(folder / "address"),
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": "0",
    }
    try:
        process = subprocess.Popen(  # noqa: S603 - the image's java, no shell
            words,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
        )
    except OSError:
        os.close(reading)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(writing)
    return Launched(process, reading, folder)


def command(conf: Mapping[str, str], environment: Mapping[str, str]) -> list[str] | None:
    """The command that Spark's launcher would make of these settings; None if it alone can. Reads files only."""
    archive, home = environment.get(ARCHIVE_VARIABLE, ""), _spark_home(environment)
    options = Path(f"{archive}.options")
    if not _is_archived(conf, archive) or not options.exists() or home is None or _MEMORY not in conf:
        return None
    folder = Path(environment.get("SPARK_CONF_DIR") or home / "conf")
    if any(name in environment for name in _VARIABLES_OF_THE_LAUNCHER) or _needs_launcher(conf, folder):
        return None
    settings, java_home = jvm_settings(conf, archive), environment.get("JAVA_HOME")
    return [
        f"{java_home}/bin/java" if java_home else "java",
        "-cp",
        f"{settings[_CLASS_PATH]}:{folder}/:{home}/jars/*",
        f"-Xmx{conf[_MEMORY]}",
        *shlex.split(settings[_OPTIONS]),
        *options.read_text(encoding="utf-8").splitlines(),
        "org.apache.spark.deploy.SparkSubmit",
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        "pyspark-shell",
    ]


def jvm_settings(conf: Mapping[str, str], archive: str) -> dict[str, str]:
    """The settings with which a JVM starts, with the class archive if it is there."""
    settings = with_archive(conf, archive)
    settings[_OPTIONS] = with_log_configuration(settings.get(_OPTIONS, ""))
    return settings


def with_archive(conf: Mapping[str, str], archive: str) -> dict[str, str]:
    """The settings of a JVM that starts with the class archive, if it is there and no other class path comes before its
    own.
    """
    if not _is_archived(conf, archive):
        return dict(conf)
    # With jars of another version the JVM starts without, and need not say so.
    options = f"{conf.get(_OPTIONS, '')} -XX:SharedArchiveFile={archive} -Xlog:cds=off,cds+dynamic=off".strip()
    return {**conf, _CLASS_PATH: Path(f"{archive}.classpath").read_text(encoding="utf-8"), _OPTIONS: options}


def _is_archived(conf: Mapping[str, str], archive: str) -> bool:
    return bool(archive) and _CLASS_PATH not in conf and Path(f"{archive}.classpath").exists()


def _needs_launcher(conf: Mapping[str, str], folder: Path) -> bool:
    if any(name in conf for name in _OF_THE_LAUNCHER) or any(
        (folder / name).exists() for name in _FILES_OF_THE_LAUNCHER
    ):
        return True
    defaults = folder / "spark-defaults.conf"
    said = defaults.read_text(encoding="utf-8", errors="replace") if defaults.exists() else ""
    return any(name in said for name in (*_OF_THE_LAUNCHER, _CLASS_PATH))


def _spark_home(environment: Mapping[str, str]) -> Path | None:
    """PySpark's folder; found without importing it, which takes half a second."""
    if home := environment.get("SPARK_HOME"):
        return Path(home)
    found = importlib.util.find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent
