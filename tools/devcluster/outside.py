"""Servers outside a cluster, seen from inside under a name: what `kafka:9092` is in a namespace."""

from __future__ import annotations

from typing import Any


def outside_service(name: str, namespace: str, port: int, *, host_ip: str, host_port: int) -> list[dict[str, Any]]:
    """Manifests of a Service that leads to a server on the host."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"name": "main", "port": port, "targetPort": host_port}]},
    }
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-outside", "namespace": namespace, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host_ip], "conditions": {"ready": True}}],
        "ports": [{"name": "main", "port": host_port, "protocol": "TCP"}],
    }
    return [service, slice_]
