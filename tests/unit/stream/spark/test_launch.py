"""How Spark's JVM starts where the image has a class archive: by one command, without Spark's launcher."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bucketingest.stream.spark.launch import command, launch, with_archive

OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"
CONF = {"spark.driver.memory": "512m", OPTIONS: "-XX:+UseParallelGC -Dsaid='two words'", "spark.master": "k8s://here"}
JAVA = """#!/bin/bash
[ "$1" = -cp ] || exit 1
printf '\\0\\0\\x1f\\x90\\0\\0\\0\\x06secret' >"$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
echo it runs
read -r _
"""


def archive(folder: Path) -> str:
    (folder / "spark.jsa.classpath").write_text("/jars/a.jar:/jars/b.jar")
    (folder / "spark.jsa.options").write_text("--add-opens=java.base/java.nio=ALL-UNNAMED\n-Dio.netty.x=true\n")
    return str(folder / "spark.jsa")


@pytest.fixture
def image(tmp_path: Path) -> dict[str, str]:
    """The environment of a container."""
    conf = tmp_path / "conf"
    conf.mkdir()
    return {
        "BUCKETINGEST_CLASS_ARCHIVE": archive(tmp_path),
        "JAVA_HOME": "/opt/java",
        "SPARK_CONF_DIR": str(conf),
        "SPARK_HOME": "/opt/spark",
    }


def test_the_class_path_of_the_archive_comes_first(tmp_path: Path) -> None:
    path = archive(tmp_path)
    conf = with_archive({OPTIONS: "-XX:+UseParallelGC"}, path)
    assert conf[CLASS_PATH] == "/jars/a.jar:/jars/b.jar"
    assert conf[OPTIONS].startswith(f"-XX:+UseParallelGC -XX:SharedArchiveFile={path} ")


def test_nothing_changes_without_an_archive(tmp_path: Path) -> None:
    conf = {OPTIONS: "-XX:+UseParallelGC"}
    assert with_archive(conf, "") == conf
    assert with_archive(conf, str(tmp_path / "spark.jsa")) == conf


def test_a_class_path_of_the_user_stays(tmp_path: Path) -> None:
    conf = {CLASS_PATH: "/extra/*"}
    assert with_archive(conf, archive(tmp_path)) == conf


def test_the_command_is_that_of_sparks_launcher(image: dict[str, str]) -> None:
    words = command(CONF, image)
    assert words is not None
    assert words[:4] == [
        "/opt/java/bin/java",
        "-cp",
        f"/jars/a.jar:/jars/b.jar:{image['SPARK_CONF_DIR']}/:/opt/spark/jars/*",
        "-Xmx512m",
    ]
    options = words[4 : words.index("org.apache.spark.deploy.SparkSubmit")]
    assert options[:2] == ["-XX:+UseParallelGC", "-Dsaid=two words"]
    assert f"-XX:SharedArchiveFile={image['BUCKETINGEST_CLASS_ARCHIVE']}" in options
    assert options[-2:] == ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-Dio.netty.x=true"]
    given = words[words.index("org.apache.spark.deploy.SparkSubmit") + 1 :]
    assert ("--conf", "spark.master=k8s://here") in itertools.pairwise(given)
    assert given[-1] == "pyspark-shell"


@pytest.mark.parametrize(
    "case",
    [
        ({}, {"BUCKETINGEST_CLASS_ARCHIVE": ""}),
        ({}, {"SPARK_SUBMIT_OPTS": "-Xlog:disable"}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--jars a.jar pyspark-shell"}),
        ({CLASS_PATH: "/extra/*"}, {}),
        ({"spark.driver.defaultJavaOptions": "-Da=b"}, {}),
        ({"spark.driver.extraLibraryPath": "/lib"}, {}),
    ],
    ids=str,
)
def test_what_only_sparks_launcher_does_is_left_to_it(
    image: dict[str, str], case: tuple[dict[str, str], dict[str, str]]
) -> None:
    conf, environment = case
    assert command({**CONF, **conf}, {**image, **environment}) is None


@pytest.mark.parametrize(
    ("name", "content"),
    [("spark-env.sh", ""), ("java-opts", ""), ("spark-defaults.conf", "spark.driver.defaultJavaOptions -Da=b\n")],
)
def test_so_are_its_files(image: dict[str, str], name: str, content: str) -> None:
    Path(image["SPARK_CONF_DIR"], name).write_text(content)
    assert command(CONF, image) is None


def test_an_archive_of_an_older_release_is_used_by_sparks_launcher(image: dict[str, str]) -> None:
    Path(f"{image['BUCKETINGEST_CLASS_ARCHIVE']}.options").unlink()
    assert command(CONF, image) is None


@pytest.fixture
def java(image: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of java."""
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    for name, value in {**image, "JAVA_HOME": str(tmp_path / "java")}.items():
        monkeypatch.setenv(name, value)
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    return program


def write(program: Path, script: str) -> None:
    program.write_text(script)
    program.chmod(0o755)


def test_a_jvm_says_where_it_is_and_ends_with_this_process(java: Path) -> None:
    write(java, JAVA)
    launched = launch(CONF)
    assert launched is not None
    assert launched.address() == (8080, "secret")
    assert not launched.folder.exists()
    assert os.read(launched.output, 100) == b"it runs\n"
    assert launched.process.poll() is None
    assert launched.process.stdin is not None
    launched.process.stdin.close()
    assert launched.process.wait(10) == 1, "as read does at the end of its input"
    os.close(launched.output)


def test_a_jvm_that_ends_early_has_no_address(java: Path) -> None:
    write(java, "#!/bin/bash\nexit 7\n")
    launched = launch(CONF)
    assert launched is not None
    with pytest.raises(OSError, match="it ended with 7"):
        launched.address()
    os.close(launched.output)


def test_a_jvm_that_never_answers_is_killed(java: Path) -> None:
    write(java, "#!/bin/bash\nread -r _\n")
    launched = launch(CONF)
    assert launched is not None
    with pytest.raises(TimeoutError):
        launched.address(within=0)
    assert launched.process.wait(10) == -9
    os.close(launched.output)


def test_it_starts_before_pyspark_is_imported(java: Path) -> None:
    """PySpark's import takes half a second."""
    write(java, JAVA)
    script = (
        "import sys; from bucketingest.stream.spark.launch import launch; "
        "from bucketingest.stream.spark.conf import conf_of_run; "
        "print(launch({'spark.driver.memory': '1g'}) is not None, 'pyspark' in sys.modules)"
    )
    assert said_by(script, os.environ) == "True False"


def said_by(script: str, environment: Mapping[str, str]) -> str:
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
