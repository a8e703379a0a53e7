"""With which settings Spark's JVM starts where the image has a class archive."""

from __future__ import annotations

from pathlib import Path

from bucketingest.stream.spark.jvm import with_archive

OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"


def archive(folder: Path) -> str:
    (folder / "spark.jsa.classpath").write_text("/jars/a.jar:/jars/b.jar")
    return str(folder / "spark.jsa")


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
