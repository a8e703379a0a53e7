"""Pods of other owners that try Spark's ports of a driver: without the attempt's secret they must be refused."""

from __future__ import annotations

from support.cluster.kube import Manifest, wait_for
from support.cluster.pipeline import Pipeline

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
    limit = conf.getTimeAsMs("spark.network.timeout", "120s")
    context.createClientFactory(steps).createClient(sys.argv[1], 7079).sendRpcSync(message, limit)

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
        # The insider's answer comes, however slow the machine; some of the others never get one.
        limits = [] if name == "insider" else short
        container: Manifest = {
            "name": "stranger",
            "image": image,
            "command": ["python", "-c", LOOK_UP, driver["status"]["podIP"], *limits, *conf],
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
