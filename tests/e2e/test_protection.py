"""Spark's ports of a driver: its own executors use them; a pod without the pipeline's secret is refused."""

from __future__ import annotations

from collections.abc import Callable

from support.cluster.kube import Manifest, wait_for
from support.cluster.pipeline import UID_LABEL, Pipeline

NewPipeline = Callable[..., Pipeline]
# What executors and other block managers do first, at both ports.
LOOK_UP = """
import sys
from pyspark.java_gateway import launch_gateway

gateway = launch_gateway()
spark = gateway.jvm.org.apache.spark
conf = spark.SparkConf(True)
for each in sys.argv[2:]:
    conf.set(*each.split("=", 1))

def defaults(owner, method, *numbers):
    return [getattr(owner, f"{method}$default${number}")() for number in numbers]

manager = spark.SecurityManager(conf, *defaults(spark.SecurityManager, "$lessinit$greater", 2, 3))

def look_up_the_endpoint_of_executors():
    env = spark.rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, manager, True)
    env.setupEndpointRefByURI(f"spark://CoarseGrainedScheduler@{sys.argv[1]}:7078")

def open_blocks():
    transport = spark.network.netty.SparkTransportConf
    settings = transport.fromSparkConf(conf, "shuffle", 1, *defaults(transport, "fromSparkConf", 4, 5))
    context = spark.network.TransportContext(settings, spark.network.server.NoOpRpcHandler())
    steps = gateway.jvm.java.util.ArrayList()
    if manager.isAuthenticationEnabled():
        steps.add(spark.network.crypto.AuthClientBootstrap(settings, "stranger", manager))
    none = gateway.new_array(gateway.jvm.String, 0)
    message = spark.network.shuffle.protocol.OpenBlocks("stranger", "1", none).toByteBuffer()
    context.createClientFactory(steps).createClient(sys.argv[1], 7079).sendRpcSync(message, 15000)

for name, use in {"rpc": look_up_the_endpoint_of_executors, "blocks": open_blocks}.items():
    try:
        use()
    except Exception as error:
        print(f"{name} REFUSED", " ".join(str(error).split())[:300])
    else:
        print(f"{name} REACHED")
"""
ENCRYPTED = [
    "spark.authenticate=true",
    "spark.network.crypto.enabled=true",
    "spark.network.crypto.authEngineVersion=2",
    "spark.network.crypto.cipher=AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback=false",
]
# Spark reads a file only on Kubernetes.
FILE = ["spark.master=k8s://stranger", "spark.authenticate.secret.file=/secret/secret"]
FILE_IN_POD = "/etc/bucketingest-rpc/secret"
STRANGERS = {
    "insider": [*ENCRYPTED, *FILE],
    "nobody": ["spark.authenticate=false"],
    "guesser": [*ENCRYPTED, "spark.authenticate.secret=guessed"],
}
"""The one who has the secret shows that the look-ups themselves work."""


def strangers(pipeline: Pipeline, image: str, secret: str) -> dict[str, str]:
    """What pods of other owners see that try to talk to the pipeline's driver, all at the same time."""
    (driver,) = (pod for pod in pipeline.drivers() if pod["status"]["phase"] == "Running")
    short = ["spark.rpc.lookupTimeout=15s", "spark.rpc.askTimeout=15s", "spark.network.timeout=15s"]
    for name, conf in STRANGERS.items():
        container: Manifest = {
            "name": "stranger",
            "image": image,
            "command": ["python", "-c", LOOK_UP, driver["status"]["podIP"], *short, *conf],
            "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
        }
        spec: Manifest = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
        if name == "insider":
            spec["volumes"] = [{"name": "secret", "secret": {"secretName": secret}}]
            container["volumeMounts"] = [{"name": "secret", "mountPath": "/secret"}]
        where = {"name": name, "namespace": pipeline.namespace, "labels": {"app": "stranger"}}
        pipeline.kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": where, "spec": spec})

    def ended() -> bool:
        pods = pipeline.kube.pods(pipeline.namespace, {"app": "stranger"})
        return len(pods) == len(STRANGERS) and all(pod["status"]["phase"] in {"Succeeded", "Failed"} for pod in pods)

    wait_for(ended, within=240, description="the strangers end", state=pipeline.state)
    said = {name: pipeline.kube.logs(pipeline.namespace, name, 1000) for name in STRANGERS}
    for name in STRANGERS:
        pipeline.kube.delete_pod(pipeline.namespace, name, grace=0)
    return said


def secret_of(pod: Manifest) -> str:
    """Name of the Secret that a pod mounts for Spark's ports."""
    volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
    return str(volumes["rpc-secret"]["secret"]["secretName"])


def test_executors_are_authenticated_and_a_stranger_is_refused(on_volume: NewPipeline, values: Manifest) -> None:
    guarded = on_volume("guarded")
    guarded.load(seed=11)
    guarded.kube.apply(guarded.manifest())
    guarded.wait_for_commit(0, "applied")
    image = values["job"]["image"]
    where = ["--namespace", guarded.namespace]
    uid = (guarded.get() or {})["metadata"]["uid"]
    (driver,), (executor,) = guarded.drivers(), guarded.executors()
    secret = secret_of(driver)
    assert secret_of(executor) == secret
    coded = guarded.kube.kubectl("get", *where, "secret", secret, "-o", "jsonpath={.data.secret}")
    value = guarded.kube.execute(guarded.namespace, driver["metadata"]["name"], ["cat", FILE_IN_POD])

    said = strangers(guarded, image, secret)
    assert "rpc REACHED" in said["insider"], said
    assert "blocks REACHED" in said["insider"], said
    for who in ("nobody", "guesser"):
        assert "rpc REFUSED" in said[who], said
        assert "blocks REFUSED" in said[who], said
        assert "REACHED" not in said[who], said

    everything = guarded.kube.kubectl("get", "bi,pods,configmaps,events", *where, "-o", "yaml")
    logs = "".join(
        guarded.kube.logs(guarded.namespace, pod["metadata"]["name"], 10_000)
        for pod in (*guarded.drivers(), *guarded.executors())
    )
    for text in (value.strip(), coded.strip()):
        assert text
        assert text not in everything + logs

    # No executor was lost meanwhile.
    assert [each["metadata"]["name"] for each in guarded.executors()] == [executor["metadata"]["name"]]

    # The next driver has another secret.
    change = {"metadata": {"annotations": {"bucketingest.dev/restart": "another secret"}}}
    guarded.kube.patch(guarded.namespace, guarded.name, change)
    guarded.wait("another attempt", lambda: guarded.attempt() == 2)
    guarded.judge()
    another = secret_of(guarded.drivers()[-1])
    assert another != secret
    owned = f"{UID_LABEL}={uid}"
    assert f"secret/{another}" in guarded.kube.kubectl("get", "secret", *where, "-l", owned, "-o", "name").split()
    policies = guarded.kube.kubectl("get", "networkpolicy", *where, "-l", owned, "-o", "name")
    assert len(policies.split()) == 1
    guarded.remove()
    guarded.wait(
        "nothing left",
        lambda: not guarded.kube.kubectl("get", "secret,networkpolicy", *where, "-l", owned, "-o", "name"),
    )
