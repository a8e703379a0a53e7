"""An operator is not uninstalled while a BucketIngest needs one for its deletion."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from support.operator.scene import Scene, Start


def asked(scene: Scene) -> tuple[int, list[str]]:
    """The exit code, and the resources that are named."""
    command = [sys.executable, "-m", "bucketingest_operator.main", "--may-uninstall", "--namespace", scene.namespace]
    environment = {**os.environ, "KUBECONFIG": str(scene.kube.kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    return done.returncode, [name for line in lines for name in line.get("bucketingests", [])]


def test_it_is_refused_while_one_has_the_finalizer_and_names_it(scene: Scene, start: Start) -> None:
    assert asked(scene) == (0, [])
    start()
    scene.apply()
    scene.driver()
    assert asked(scene) == (1, [f"{scene.namespace}/orders"])
    scene.kube.delete(scene.namespace, "orders")
    scene.await_gone()
    assert asked(scene) == (0, [])
