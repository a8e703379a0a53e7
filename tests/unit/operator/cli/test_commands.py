"""`diagnose` and `top` as a person runs them, against an API server that answers from a table."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from bucketingest.errors import BucketIngestError
from bucketingest_operator.cli import commands
from bucketingest_operator.cli.cluster import Cluster
from bucketingest_operator.cli.errors import ClusterError, ContainerUnreachable, NotThere
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decision_log import EVENT, encode_observation, encode_plan
from bucketingest_operator.observation import Observation
from support.cluster.people import unpacked
from support.operator.api_server import TOKEN, ApiServer, api_server
from support.operator.observations import NAMES, NOW, UID, resource

RESOURCES = "/apis/bucketingest.dev/v1alpha1/namespaces/ingest/bucketingests"
NAMESPACE = "/api/v1/namespaces/ingest"
DRIVER = NAMES.driver(2)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    with api_server() as found:
        monkeypatch.setenv("KUBECONFIG", str(found.kubeconfig(tmp_path, "ingest")))
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
        yield found


@pytest.fixture
def full(server: ApiServer) -> ApiServer:
    """A pipeline with a running driver, an older one that ended, an executor, and an operator."""
    spec = {
        "source": {"kafka": {"options": {"kafka.sasl.jaas.config": "hunter11"}}},
        "table": {"path": "s3://lake/orders"},
    }
    status = {"phase": "Running", "attempt": 2, "lastCommit": {"time": "2026-11-21T11:59:00Z"}}
    metadata = {"name": "orders", "namespace": "ingest", "uid": UID}
    found = {"kind": "BucketIngest", "metadata": metadata, "spec": spec, "status": status}
    seen = Observation(NOW, resource())
    decision = {
        "timestamp": "2026-11-21T12:00:00Z",
        "event": EVENT,
        "namespace": "ingest",
        "name": "orders",
        "observation": encode_observation(seen),
        "plan": encode_plan(reconcile(seen)),
    }
    operator = {"metadata": {"name": "operator-0", "namespace": "system"}, "status": {"containerStatuses": [{}]}}
    server.answers = {
        "/version": {"gitVersion": "v1.36.3"},
        f"{RESOURCES}/orders": found,
        RESOURCES: [found, {"metadata": {**metadata, "name": "other"}, "status": {"phase": "Stalled"}}],
        f"{NAMESPACE}/pods": [
            pod(DRIVER, "driver", 2, "Running"),
            pod(NAMES.driver(1), "driver", 1, "Failed"),
            pod("executor", "executor", 2, "Running"),
        ],
        f"{NAMESPACE}/pods/{DRIVER}/log": "2026-11-21T12:00:00Z login with password=hunter22\n",
        f"{NAMESPACE}/pods/{NAMES.driver(1)}/log": '2026-11-21T11:00:00Z {"event": "x", "api.key": "hunter33"}\n',
        f"{NAMESPACE}/pods/{DRIVER}:9808/proxy/progress": {"phase": "running", "verdictReason": "token=hunter44"},
        f"{NAMESPACE}/configmaps": [
            {"metadata": {"name": "c"}, "data": {"spark-defaults.conf": "a.secret hunter55\n"}}
        ],
        "/apis/batch/v1/namespaces/ingest/jobs": [],
        f"{NAMESPACE}/events": [
            event(UID, "orders", "DriverLost", "2026-11-21T11:30:00Z", "with password=hunter66"),
            event("x", DRIVER, "Pulled", "2026-11-21T11:31:00Z"),
            event("y", "other", "Killing", "2026-11-21T11:32:00Z"),
        ],
        "/api/v1/pods": [operator],
        "/api/v1/namespaces/system/pods/operator-0/log": f"{json.dumps(decision)}\nodd line about orders\n",
    }
    return server


def pod(name: str, role: str, number: int, phase: str) -> dict[str, Any]:
    labels = {"bucketingest.dev/role": role, "bucketingest.dev/attempt": str(number)}
    container = {"name": role, "env": [{"name": "MASTER", "value": "hunter77"}]}
    return {
        "metadata": {"name": name, "namespace": "ingest", "labels": labels},
        "spec": {"containers": [container]},
        "status": {"phase": phase},
    }


def event(uid: str, name: str, reason: str, at: str, message: str = "m") -> dict[str, Any]:
    involved = {"kind": "X", "name": name, "uid": uid}
    return {"involvedObject": involved, "reason": reason, "type": "Normal", "lastTimestamp": at, "message": message}


@pytest.fixture
def in_the_pod(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that were run in the driver's container; `inspect` answers."""
    ran: list[list[str]] = []

    def run(_: Cluster, namespace: str, name: str, container: str, command: list[str], **limits: float) -> str:
        assert (namespace, name, container) == ("ingest", DRIVER, "driver")
        ran.append(command)
        return '{"table": "s3://lake/orders"}' if "--json" in command else "timeline of s3://lake/orders"

    monkeypatch.setattr(Cluster, "run", run)
    return ran


def test_that_no_command_can_be_run_in_the_driver_is_noted_once(
    full: ApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(*_: object, **__: object) -> str:
        raise ContainerUnreachable(f"no command can be run in {DRIVER}: the container is not running")

    monkeypatch.setattr(Cluster, "run", run)
    commands.diagnose("orders", output=tmp_path / "b.tar.gz")
    missing = unpacked(tmp_path / "b.tar.gz")["missing.txt"].splitlines()
    assert [line for line in missing if "is not running" in line] == [
        f"timeline.txt, timeline.json: no command can be run in {DRIVER}: the container is not running"
    ]


def test_a_bundle_has_all_that_explains_a_pipeline_and_no_secret(
    full: ApiServer, in_the_pod: list[list[str]], tmp_path: Path
) -> None:
    commands.diagnose("orders", output=tmp_path / "b.tar.gz")
    files = unpacked(tmp_path / "b.tar.gz")
    assert yaml.safe_load(files["resource.yaml"])["status"]["phase"] == "Running"
    assert {name for name in files if name.startswith("pods/")} == {
        f"pods/{DRIVER}.yaml",
        f"pods/{NAMES.driver(1)}.yaml",
        "pods/executor.yaml",
    }
    assert [line.split()[2] for line in files["events.txt"].splitlines()] == ["DriverLost", "Pulled"]
    assert files["timeline.txt"] == "timeline of s3://lake/orders"
    assert json.loads(files["progress.json"])["phase"] == "running"
    assert json.loads(files["decisions.jsonl"])["plan"]["actions"]
    assert files["logs/operator.log"] == "odd line about orders\n"
    assert f"logs/{DRIVER}.driver.log" in files
    assert "logs/executor.executor.log: " in files["missing.txt"], "its log could not be read"
    whole = "".join(files.values())
    assert "hunter" not in whole
    assert TOKEN not in whole


def test_of_many_tables_the_first_in_need_are_inspected(
    full: ApiServer, in_the_pod: list[list[str]], tmp_path: Path
) -> None:
    found: dict[str, Any] = full.answers[f"{RESOURCES}/orders"]
    found["spec"]["table"]["path"] = "s3://lake/{topic}"
    worst = ["../../other", "--all", "shop.a", "shop.b", "shop.c"]
    found["status"]["tables"] = {"worst": [{"topic": topic, "state": "parked"} for topic in worst]}
    commands.diagnose("orders", output=tmp_path / "b.tar.gz")
    inspected = [command[command.index("inspect") + 1] for command in in_the_pod if "--json" in command]
    assert inspected == ["s3://lake/--all", "s3://lake/shop.a", "s3://lake/shop.b"]
    assert "timeline-shop.b.txt" in unpacked(tmp_path / "b.tar.gz")


def test_what_is_run_in_the_drivers_container_leaves_no_termination_message_there(
    full: ApiServer, in_the_pod: list[list[str]], tmp_path: Path
) -> None:
    commands.diagnose("orders", output=tmp_path / "b.tar.gz")
    assert in_the_pod
    assert all(command[:2] == ["env", "BUCKETINGEST_TERMINATION_LOG=/dev/null"] for command in in_the_pod)


def test_without_the_right_to_the_proxy_the_driver_is_asked_from_its_pod(
    full: ApiServer, in_the_pod: list[list[str]], tmp_path: Path
) -> None:
    full.answers[f"{NAMESPACE}/pods/{DRIVER}:9808/proxy/progress"] = 403
    commands.diagnose("orders", output=tmp_path / "b.tar.gz")
    assert any("/progress" in " ".join(command) for command in in_the_pod)


def test_the_table_is_not_inspected_if_the_user_says_so(
    full: ApiServer, in_the_pod: list[list[str]], tmp_path: Path
) -> None:
    commands.diagnose("orders", output=tmp_path / "b.tar.gz", timeline=False)
    assert in_the_pod == []
    assert "timeline.txt" not in unpacked(tmp_path / "b.tar.gz")


def test_what_cannot_be_read_is_noted_and_the_rest_is_collected(
    full: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], in_the_pod: list[list[str]]
) -> None:
    full.answers |= {f"{NAMESPACE}/events": 403, "/api/v1/pods": 403, f"{NAMESPACE}/configmaps": 500}
    full.answers[f"{NAMESPACE}/pods"] = [pod(DRIVER, "driver", 2, "Failed")]
    commands.diagnose("orders", output=tmp_path / "b.tar.gz")
    missing = unpacked(tmp_path / "b.tar.gz")["missing.txt"]
    for part in ("configmaps/", "events.txt", "progress.json, timeline.txt: no driver pod is running"):
        assert part in missing
    assert "without events.txt" in capsys.readouterr().err
    assert in_the_pod == []


def test_a_bundle_is_replayed(
    full: ApiServer, in_the_pod: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.diagnose("orders", output=tmp_path / "b.tar.gz")
    commands.diagnose(bundle=tmp_path / "b.tar.gz")
    assert capsys.readouterr().out.endswith("1 decisions: 1 the same, 0 others\n")


def test_the_person_of_the_kubeconfig_asks(full: ApiServer) -> None:
    commands.top(once=True)
    assert {authorization for _, _, authorization in full.asked} == {f"Bearer {TOKEN}"}


def test_top_prints_a_line_per_pipeline_the_stalled_first(full: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    commands.top(once=True)
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["NAME", "PHASE", "READY"]
    assert [line.split()[:2] for line in lines] == [["other", "Stalled"], ["orders", "Running"]]


def test_top_of_all_namespaces_names_them(full: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    full.answers["/apis/bucketingest.dev/v1alpha1/bucketingests"] = full.answers[RESOURCES]
    commands.top(once=True, every=True)
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["ingest", "other"]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: commands.diagnose("missing"), NotThere, "no BucketIngest missing in namespace ingest"),
        (lambda: commands.diagnose("orders", since="soon"), BucketIngestError, "--since: 'soon'"),
        (lambda: commands.diagnose("orders", context="elsewhere"), ClusterError, "elsewhere"),
        (commands.diagnose, typer.BadParameter, "NAME is missing"),
        (lambda: commands.diagnose("orders", bundle=Path("x")), typer.BadParameter, "needs no NAME"),
        (lambda: commands.diagnose("orders", output=Path("/nowhere/b.tar.gz")), BucketIngestError, "cannot be written"),
    ],
)
def test_what_is_wrong_is_reported(
    full: ApiServer, in_the_pod: list[list[str]], call: Callable[[], None], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        call()


def test_a_cluster_that_does_not_answer_is_reported_with_its_address(server: ApiServer, tmp_path: Path) -> None:
    server.url = "http://127.0.0.1:1"
    server.kubeconfig(tmp_path)
    with pytest.raises(ClusterError, match=r"the API server http://127\.0\.0\.1:1 does not answer"):
        commands.top(once=True)


def test_without_a_cluster_the_message_says_where_to_name_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", nowhere)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="set KUBECONFIG"):
        commands.top(once=True)
