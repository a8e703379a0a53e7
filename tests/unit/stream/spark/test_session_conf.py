"""What can be tested of the Spark session without starting one."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.stream.spark import conf as settings
from bucketingest.stream.spark.session import prepared
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.manifests.spark_conf import spark_defaults


def test_jars_come_from_the_folder_that_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b.jar", "a.jar", ".ready", "readme.txt"):
        (tmp_path / name).touch()
    monkeypatch.setenv("BUCKETINGEST_JARS", str(tmp_path))

    assert settings.connector_jars() == [str(tmp_path / "a.jar"), str(tmp_path / "b.jar")]


def test_jars_come_from_the_cache_folder_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bucketingest" / "jars" / "spark-4.2"
    folder.mkdir(parents=True)
    (folder / "a.jar").touch()
    monkeypatch.delenv("BUCKETINGEST_JARS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert settings.connector_jars() == [str(folder / "a.jar")]


def test_a_folder_that_is_not_there_holds_no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUCKETINGEST_JARS", str(tmp_path / "nowhere"))

    assert settings.connector_jars() == []


def test_a_user_without_a_home_has_no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BUCKETINGEST_JARS", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    assert settings.connector_jars() == []


def resource(**spark: object) -> BucketIngest:
    spec = {
        "source": {"rate": {"rowsPerSecond": 1}},
        "table": {"path": "/lake/t", "recordKey": ["value"]},
        "spark": {"driver": {"memory": "1Gi"}, "executor": {"memory": "4Gi"}, **spark},
    }
    document = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "metadata": {"name": "t"}}
    return BucketIngest.from_document({**document, "spec": spec})


CLUSTER = "k8s://https://kubernetes.default.svc:443"


def test_without_a_master_all_runs_on_this_machine_with_the_larger_heap() -> None:
    conf = settings.session_conf(resource(), None, ["/jars/a.jar"])

    assert conf["spark.master"] == "local[*]"
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.driver.memory"] == "4096m"
    assert conf["spark.jars"] == "/jars/a.jar"


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,4096]"])
def test_an_executor_starts_with_the_heap_that_it_may_have(master: str) -> None:
    conf = settings.session_conf(resource(), master, [])

    assert conf["spark.executor.memory"] == "4096m"
    assert "-Xms4096m " in conf["spark.executor.extraJavaOptions"]


def test_the_heap_of_a_driver_with_executors_is_what_its_pod_is_sized_for() -> None:
    assert settings.session_conf(resource(), CLUSTER, [])["spark.driver.memory"] == "1024m"


def test_a_local_master_of_the_environment_has_no_executors_next_to_the_driver() -> None:
    assert settings.session_conf(resource(), "local[2]", [])["spark.driver.memory"] == "4096m"


def test_the_shuffle_is_compressed_where_it_crosses_a_network_or_the_user_wants_it() -> None:
    compressed = {"spark.shuffle.compress": "true"}
    assert settings.session_conf(resource(), "local[2]", [])["spark.shuffle.compress"] == "false"
    assert settings.session_conf(resource(conf=compressed), None, [])["spark.shuffle.compress"] == "true"
    assert "spark.shuffle.compress" not in settings.session_conf(resource(), CLUSTER, [])


@pytest.mark.parametrize(("memory", "young"), [("512Mi", 128), ("1Gi", 256), ("2Gi", 512), ("6Gi", 512)])
def test_the_young_generation_is_small_and_leaves_a_small_heap_to_spark(memory: str, young: int) -> None:
    conf = settings.session_conf(resource(driver={"memory": memory}, executor={"memory": memory}), CLUSTER, [])

    for role in ("driver", "executor"):
        assert f"-XX:MaxNewSize={young}m " in conf[f"spark.{role}.extraJavaOptions"]
        assert "-XX:Tier4InvocationThreshold=" in conf[f"spark.{role}.extraJavaOptions"]
        assert "-XX:+ExitOnOutOfMemoryError" in conf[f"spark.{role}.extraJavaOptions"]


def test_executors_log_errors_only_for_kafkas_options_are_in_the_rest_unless_the_user_says_otherwise() -> None:
    options = "spark.executor.extraJavaOptions"
    assert "-Dlog4j2.configurationFile=file:" in settings.session_conf(resource(), CLUSTER, [])[options]
    own = resource(conf={options: "-Dlog4j2.configurationFile=/own"})
    assert settings.session_conf(own, CLUSTER, [])[options] == "-Dlog4j2.configurationFile=/own"


def test_on_a_cluster_nothing_of_the_operators_defaults_is_set_again() -> None:
    conf = settings.session_conf(resource(), CLUSTER, [])

    assert conf["spark.master"] == CLUSTER
    defaults = spark_defaults(
        resource(),
        JobSettings(),
        namespace="n",
        account="a",
        driver_pod="d",
        executor_prefix="p",
    )
    assert defaults.keys() & conf.keys() == set()


def test_on_a_cluster_the_number_of_write_tasks_is_the_specs_however_many_executors_are_there_yet() -> None:
    wanted = {"executor": {"instances": 3, "cores": "2500m", "memory": "1Gi"}}
    conf = settings.session_conf(resource(**wanted), CLUSTER, [])

    assert conf["spark.default.parallelism"] == "6"
    assert conf["spark.scheduler.minRegisteredResourcesRatio"] == "0"
    chosen = {**wanted, "conf": {"spark.default.parallelism": "9"}}
    assert settings.session_conf(resource(**chosen), CLUSTER, [])["spark.default.parallelism"] == "9"
    assert "spark.default.parallelism" not in settings.session_conf(resource(**wanted), None, [])


def test_executors_take_connectors_from_their_own_image() -> None:
    wanted = resource(conf={"spark.jars": "https://jars.example/mine.jar"})
    conf = settings.session_conf(wanted, CLUSTER, ["/opt/jars/a.jar", "/opt/jars/b.jar"])

    assert conf["spark.jars"] == "https://jars.example/mine.jar,local:///opt/jars/a.jar,local:///opt/jars/b.jar"


class Conf:
    """A session's settings: None where it has none."""

    def __init__(self, **values: str) -> None:
        self.values = {name.replace("__", "."): value for name, value in values.items()}

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def unset(self, name: str) -> None:
        self.values.pop(name, None)


class Session:
    def __init__(self, conf: Conf) -> None:
        self.conf = conf


def test_a_users_session_has_what_the_write_path_relies_on_and_its_own_settings_afterwards() -> None:
    conf = Conf(spark__sql__session__timeZone="Europe/Berlin", spark__sql__adaptive__enabled="true")
    before = dict(conf.values)

    with contextlib.suppress(KeyError), prepared(Session(conf)):  # type: ignore[arg-type]
        assert conf.values == settings.REQUIRED_CONF
        raise KeyError  # as when a query cannot be started

    assert conf.values == before


def test_nothing_may_change_the_number_of_write_tasks_or_the_rows_of_equal_input() -> None:
    assert settings.REQUIRED_CONF["spark.sql.adaptive.enabled"] == "false"
    assert settings.REQUIRED_CONF["spark.sql.session.timeZone"] == "UTC"
