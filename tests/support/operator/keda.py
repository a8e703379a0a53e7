"""KEDA's own two processes beside a test's API server: its operator, and the server of its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from devcluster.binaries import KEDA, program, source_of
from devservers.process import ServerProcess, answers, free_ports
from support.cluster.kube import Kube
from support.operator.certificates import make_certificate

_LOCAL = "127.0.0.1"
_SECONDS = 120.0
_METRICS = "v1beta1.external.metrics.k8s.io"
_AUTOSCALER = {"kind": "ServiceAccount", "name": "horizontal-pod-autoscaler", "namespace": "kube-system"}
_ANYBODY = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:unauthenticated"}


@contextmanager
def keda(kube: Kube, kubeconfig: Path, namespace: str, host: str, folder: Path) -> Iterator[list[ServerProcess]]:
    """KEDA for one namespace. `host`: the address by which the API server reaches this machine."""
    crds = source_of(KEDA, "github.com/kedacore/keda/v2") / "config" / "crd" / "bases"
    kube.kubectl("apply", "--server-side", "-f", str(crds))
    operator, metrics, health, adapter, numbers = map(str, free_ports(5))
    _serve_metrics_at(kube, namespace, host, adapter)
    certificates = folder / "certificates"
    certificates.mkdir()
    (certificates / "ca.crt").write_bytes(make_certificate(certificates, _LOCAL))
    places = ("POD_NAMESPACE", "WATCH_NAMESPACE", "KEDA_CLUSTER_OBJECT_NAMESPACE")
    own = {"KUBECONFIG": str(kubeconfig), **dict.fromkeys(places, namespace)}
    tls = [f"--tls-cert-file={certificates}/tls.crt", f"--tls-private-key-file={certificates}/tls.key"]
    with ExitStack() as stack:
        stack.callback(kube.kubectl, "delete", "apiservice", _METRICS)
        processes = [
            ServerProcess(
                "keda-operator",
                [
                    str(program("keda-operator")),
                    f"--cert-dir={certificates}",
                    f"--metrics-service-bind-address={_LOCAL}:{operator}",
                    f"--metrics-bind-address={_LOCAL}:{metrics}",
                    f"--health-probe-bind-address={_LOCAL}:{health}",
                ],
                log=folder / "keda-operator.log",
                environment=own,
            ),
            ServerProcess(
                "keda-adapter",
                [
                    str(program("keda-adapter")),
                    f"--secure-port={adapter}",
                    f"--metrics-service-address={_LOCAL}:{operator}",
                    f"--port={numbers}",
                    f"--cert-dir={certificates}",
                    *tls,
                    *(f"--{part}-kubeconfig={kubeconfig}" for part in ("authentication", "authorization", "lister")),
                ],
                log=folder / "keda-adapter.log",
                environment=own,
            ),
        ]
        for each in processes:
            stack.callback(each.stop)
        processes[0].wait_until(lambda: answers(f"http://{_LOCAL}:{health}/readyz"), timeout_s=_SECONDS)
        yield processes


def _serve_metrics_at(kube: Kube, namespace: str, host: str, port: str) -> None:
    """The API server asks this address for external metrics. It has no certificate of its own for that."""
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "external-metrics"}
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "keda-metrics", "namespace": namespace},
            "spec": {"type": "ExternalName", "externalName": host, "ports": [{"port": int(port)}]},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": _METRICS},
            "spec": {
                "service": {"name": "keda-metrics", "namespace": namespace, "port": int(port)},
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
            },
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "external-metrics"},
            "rules": [
                {"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]},
                {"nonResourceURLs": ["/apis", "/apis/*"], "verbs": ["get"]},
            ],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "external-metrics"},
            "roleRef": role,
            "subjects": [_AUTOSCALER, _ANYBODY],
        },
    )
