"""The validating webhook at a real API server: what `kubectl apply` says, and that nothing depends on it."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from support.cluster.kube import Kube, wait_for
from support.operator.certificates import make_certificate
from support.operator.scene import Scene, Start


def own_address(kube: Kube) -> str:
    """The address of this machine for the API server."""
    server = urlsplit(kube.kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((server.hostname, server.port))
        return str(probe.getsockname()[0])


@pytest.fixture
def webhook(kube: Kube, scene: Scene, tmp_path: Path) -> Iterator[list[str]]:
    """The API server asks a webhook about this namespace; the operator's options with which it is one."""
    address = own_address(kube)
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    authority = make_certificate(tmp_path, address)
    name = f"{scene.namespace}-webhook"
    kube.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": "validate.bucketingest.dev",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "timeoutSeconds": 5,
                    "clientConfig": {
                        "url": f"https://{address}:{port}/validate",
                        "caBundle": base64.b64encode(authority).decode(),
                    },
                    "rules": [
                        {
                            "apiGroups": ["bucketingest.dev"],
                            "apiVersions": ["v1alpha1"],
                            "resources": ["bucketingests"],
                            "operations": ["CREATE", "UPDATE"],
                        }
                    ],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}},
                }
            ],
        }
    )
    yield ["--webhook-certificate", str(tmp_path), "--webhook-port", str(port)]
    kube.kubectl("delete", "validatingwebhookconfiguration", name)


def test_what_the_definition_cannot_say_is_refused_at_once_and_while_no_operator_answers_by_the_status(
    scene: Scene, start: Start, webhook: list[str]
) -> None:
    wrong = {"transform": {"sql": "SELEKT value FROM source"}}
    operator = start("operator", None, *webhook)

    def refusal(name: str, **spec: object) -> str:
        try:
            scene.kube.kubectl("apply", "--dry-run=server", "-f", "-", stdin=as_text(scene, name, **spec))
        except AssertionError as error:
            return str(error)
        return ""

    # It serves as soon as the operator has read everything.
    words = "spec.transform.sql: begins with 'selekt', not with SELECT"
    said = wait_for(lambda: refusal("orders", **wrong), within=scene.within, description="the webhook answers")
    assert 'admission webhook "validate.bucketingest.dev" denied the request: ' + words in said
    # What is right is taken, lives, changes and goes.
    scene.apply()
    _, job = scene.run()
    with job:
        scene.await_condition("Ready", "True")
        assert words in refusal("orders", **wrong)
        taken = f"The table belongs to {scene.namespace}/orders."
        assert taken in refusal("other", table={"path": scene.paths["orders"], "recordKey": ["value"]})
        operator.end()
    # Without it everything is taken, and what was stored wrong can be deleted.
    scene.apply("late", **wrong, suspend=True)
    operator.start()
    wait_for(lambda: refusal("orders", **wrong), within=scene.within, description="the webhook answers again")
    scene.await_decided("late")
    scene.kube.kubectl("annotate", "bucketingest", "late", "--namespace", scene.namespace, "a=b")
    scene.kube.delete(scene.namespace, "late")
    scene.await_gone("late")
    assert operator.runs


def as_text(scene: Scene, name: str, **spec: object) -> str:
    """A BucketIngest as a file."""
    return yaml.safe_dump(scene.manifest(name, **spec))
