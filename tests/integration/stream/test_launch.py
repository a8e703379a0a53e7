"""The command by which the image starts a driver's JVM is the one that Spark's own launcher would use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from bucketingest.stream.spark.conf import java_options
from bucketingest.stream.spark.launch import ARCHIVE_VARIABLE, command, jvm_settings

ARCHIVE = Path(sys.prefix) / "spark.jsa"
HOME = Path(pyspark.__file__).parent


@pytest.mark.skipif(not ARCHIVE.exists(), reason="make test-deps makes the class archive")
def test_the_command_is_that_of_sparks_launcher(tmp_path: Path) -> None:
    conf = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": java_options(512 << 20),
        "spark.jars": "local:///jars/a.jar",
        "spark.master": "k8s://https://kubernetes.default.svc:443",
    }
    environment = {ARCHIVE_VARIABLE: str(ARCHIVE), "SPARK_HOME": str(HOME), "SPARK_CONF_DIR": str(tmp_path)}
    ours = command(conf, {**environment, "JAVA_HOME": os.environ.get("JAVA_HOME", "")})
    assert ours is not None
    given = [word for setting in jvm_settings(conf, str(ARCHIVE)).items() for word in ("--conf", "=".join(setting))]
    launcher = [
        "java",
        "-cp",
        f"{HOME}/jars/*",
        "org.apache.spark.launcher.Main",
        "org.apache.spark.deploy.SparkSubmit",
    ]
    said = subprocess.run(
        [*launcher, *given, "pyspark-shell"],
        env={"PATH": os.environ["PATH"], **environment, "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = [word for word in said.stdout.strip("\0\n").split("\0") if word]
    assert theirs[1:3] == ours[1:3]
    assert sorted(theirs[3:]) == sorted(ours[3:])
