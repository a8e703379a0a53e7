"""What the job's image starts, with the variables that Spark 4.2 sets for an executor's container."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).parents[3] / "sparkjob" / "container" / "entrypoint.sh"
EXECUTOR = {
    "SPARK_HOME": "/spark",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "orders-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Programs that print how they were called, one word a line."""
    for name in ("tini", "bucketingest"):
        program = tmp_path / name
        program.write_text('#!/bin/bash\nprintf "%s\\n" "${0##*/}" "$@"\n')
        program.chmod(0o755)
    return tmp_path


def called(programs: Path, *arguments: str, **environment: str) -> list[str]:
    path = {"PATH": f"{programs}:/usr/bin:/bin"}
    done = subprocess.run(
        [str(ENTRYPOINT), *arguments], env={**path, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_any_command_is_one_of_bucketingest(programs: Path) -> None:
    assert called(programs, "run", "/etc/a file.yaml") == ["bucketingest", "run", "/etc/a file.yaml"]


def test_an_executor_is_a_jvm_with_the_options_in_their_order_also_with_spaces(programs: Path) -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Doption={number} and more" for number in range(12)}
    words = called(programs, "executor", **EXECUTOR, **options)
    assert words[:4] == ["tini", "-s", "--", "java"]
    assert words[4:16] == [f"-Doption={number} and more" for number in range(12)]
    assert words[16:20] == ["-Xms512m", "-Xmx512m", "-cp", "/spark/conf:/spark/jars/*"]
    given = dict(zip(words[21::2], words[22::2], strict=True))
    assert given == {
        "--driver-url": EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "orders-exec-3",
    }


def test_an_executor_starts_with_the_class_archive_and_its_class_path_first(programs: Path, tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    (tmp_path / "spark.jsa.classpath").write_text("/spark/jars/a.jar:/spark/jars/b.jar")
    words = called(programs, "executor", **EXECUTOR, BUCKETINGEST_CLASS_ARCHIVE=str(archive))
    assert f"-XX:SharedArchiveFile={archive}" in words
    assert words[words.index("-cp") + 1] == "/spark/jars/a.jar:/spark/jars/b.jar:/spark/conf:/spark/jars/*"


def test_an_executor_starts_without_a_class_archive_that_is_not_there(programs: Path, tmp_path: Path) -> None:
    words = called(programs, "executor", **EXECUTOR, BUCKETINGEST_CLASS_ARCHIVE=str(tmp_path / "spark.jsa"))
    assert words[words.index("-cp") + 1] == "/spark/conf:/spark/jars/*"
    assert not any("SharedArchiveFile" in word for word in words)


def test_an_executor_that_spark_did_not_describe_does_not_start(programs: Path) -> None:
    described = {name: value for name, value in EXECUTOR.items() if name != "SPARK_DRIVER_URL"}
    with pytest.raises(subprocess.CalledProcessError):
        called(programs, "executor", **described)
