"""Persistent volumes of the embedded node: folders of the machine, so that a test can read what pods write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from devcluster.binaries import program
from devcluster.commands import run
from devcluster.instance import Instance

COUNT: Final = 8
CLASS: Final = "standard"


def make_volumes(instance: Instance) -> None:
    """Make empty volumes, and the class that a claim without one gets. Raises ClusterError."""
    folders = [instance.volumes / f"volume-{number}" for number in range(1, COUNT + 1)]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)  # pods run as users of their own
    items = [_storage_class(), *(_volume(folder) for folder in folders)]
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    run([program("kubectl"), "--kubeconfig", instance.kubeconfig, "apply", "-f", "-"], stdin=manifest)


def _storage_class() -> dict[str, Any]:
    metadata = {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    }


def _volume(folder: Path) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "storageClassName": CLASS,
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": str(folder), "type": "Directory"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": folder.name}, "spec": spec}
