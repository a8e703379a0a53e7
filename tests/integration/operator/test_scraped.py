"""A real Prometheus scrapes operator and drivers as the chart's PodMonitors say; a driver says what it likes."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from bucketingest_operator.manifests.pod_specs import HTTP_PORT
from devservers.prometheus import Prometheus
from support.cluster.kube import wait_for
from support.http_fake import FakeHandler, FakeServer
from support.monitoring.pod_monitors import Manifest, rendered, scrape_configurations
from support.operator.process import OperatorProcess
from support.operator.scene import Scene, Start

LEADS: Final = "bucketingest_operator_leader"
ROWS: Final = "bucketingest_rows_total"


def forged(system: str) -> str:
    """What the operator alone says, what only rules record, and a driver's own series in another tenant's name."""
    operator = f'job="{system}/x-bucketingest-operator",namespace="{system}",pod="operator"'
    victim = 'namespace="victim",name="orders"'
    return f"""\
{LEADS} 1
{LEADS}{{{operator}}} 1
up{{{operator}}} 1
bucketingest_resource_phase{{{victim},phase="Running"}} 1
bucketingest_slo_freshness_seconds{{{victim}}} 9e9
bucketingest_commit_lag_seconds{{{victim}}} 0
bucketingest_restarts_total{{{victim},class="Stuck"}} 7
bucketingest:slo_errors:ratio_rate5m{{{victim}}} 0
{ROWS}{{{victim},exported_namespace="victim",exported_name="orders",job="any"}} 5
"""


ENDLESS: Final[dict[str, str]] = {
    "samples": "".join(f'{ROWS}{{n="{number}"}} 1\n' for number in range(10_001)),
    "labels": ROWS + "{" + ",".join(f'l{number}="1"' for number in range(40)) + "} 1\n",
    "name": f'{ROWS}{{{"l" * 200}="1"}} 1\n',
    "value": f'{ROWS}{{l="{"1" * 2000}"}} 1\n',
    "body": f"# HELP {ROWS} {'x' * 5_000_000}\n{ROWS} 1\n",
}
"""More than a scrape may have, by what there is too much of."""


class Driver(FakeServer):
    """Answers every question with its metrics. A context manager."""

    def __init__(self, ip: str, text: str) -> None:
        class Handler(FakeHandler):
            def do_GET(self) -> None:
                with suppress(OSError):  # Prometheus hangs up
                    self.answer(200, text.encode(), Content_Type="text/plain; version=0.0.4")

        super().__init__(Handler, ip, HTTP_PORT)


def run_in_pod(scene: Scene, system: str, operator: OperatorProcess, selector: Manifest) -> None:
    """The pod that the operator would run in."""
    ports = [{"name": "http", "containerPort": operator.lines("listening")[-1]["port"]}]
    container = {"name": "operator", "image": "any", "ports": ports}
    metadata = {"name": "operator", "namespace": system, "labels": selector}
    scene.kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
    scene.node.run(system, "operator", "127.0.0.1")


def test_no_driver_speaks_for_the_operator_or_another_tenant_and_none_without_end(
    scene: Scene, start: Start, tmp_path: Path
) -> None:
    system = f"{scene.namespace}-system"
    scene.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": system}})
    chart = rendered("x", system, "podMonitor.enabled=true", "prometheusRule.enabled=true")
    of_operator, _ = (each for each in chart if each["kind"] == "PodMonitor")
    (down,) = (each["expr"] for each in rules(chart) if each.get("alert") == "BucketIngestOperatorDown")
    operator = start()
    run_in_pod(scene, system, operator, of_operator["spec"]["selector"]["matchLabels"])
    with ExitStack() as stack:
        for name, text in {"forged": forged(system), **ENDLESS}.items():
            scene.apply(name)
            pod, ip = scene.driver(name=name), scene.address()
            stack.enter_context(Driver(ip, text))
            scene.node.run(scene.namespace, pod, ip)
        pods = [pod for namespace in (system, scene.namespace) for pod in scene.kube.pods(namespace, {})]
        jobs = scrape_configurations(chart, pods)
        prometheus = stack.enter_context(Prometheus((), jobs=jobs))

        def scraped() -> dict[str, str]:
            """Of each driver, whether its last scrape was taken."""
            found = prometheus.query(f'up{{job="{system}/x-bucketingest-drivers",namespace="{scene.namespace}"}}')
            return {each["metric"]["name"]: each["value"][1] for each in found}

        wait_for(lambda: len(scraped()) == 1 + len(ENDLESS), within=60, description="all are scraped")
        wait_for(lambda: prometheus.query(LEADS), within=60, description="the operator is scraped")
        assert scraped() == {"forged": "1", **dict.fromkeys(ENDLESS, "0")}
        assert [each["metric"]["job"] for each in prometheus.query(LEADS)] == [f"{system}/x-bucketingest-operator"]
        assert prometheus.query(down) == []
        for label in ("namespace", "exported_namespace"):
            assert prometheus.query(f'{{{label}="victim"}}') == []
        (rows,) = prometheus.query(ROWS)
        whose = {"namespace": scene.namespace, "name": "forged", "job": f"{system}/x-bucketingest-drivers"}
        assert whose.items() <= rows["metric"].items()
        said = prometheus.query(f'{{job="{system}/x-bucketingest-drivers",__name__=~"bucketingest.*"}}')
        assert [each["metric"] for each in said] == [rows["metric"]]
        operator.kill()
        wait_for(lambda: prometheus.query(down), within=60, description="it is seen that no operator leads")


def rules(chart: list[Manifest]) -> list[Manifest]:
    """Those of the chart."""
    (found,) = (each for each in chart if each["kind"] == "PrometheusRule")
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]
