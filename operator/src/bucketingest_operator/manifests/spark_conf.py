"""Spark's settings for a driver in its own pod: in client mode with executors that only that pod owns, or alone."""

from __future__ import annotations

from typing import Final

from bucketingest.spec.model import BucketIngest
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.manifests.spark_ports import SPARK_AUTHENTICATION

DRIVER_PORT: Final = 7078
BLOCK_PORT: Final = 7079
CONFIG_FOLDER: Final = "/etc/bucketingest"
TEMPLATE_FILE: Final = "executor.yaml"
EXECUTOR_CONTAINER: Final = "spark-kubernetes-executor"

MIB: Final = 1024**2
_JVM_OVERHEAD_MIN_MIB: Final = 384
_SERVICES_MIB: Final = 1024
"""What the process beside the driver may need that carries table services out."""
_WORKER_MIB: Final = 256
"""A Python worker that has imported its packages and holds a batch, without the budget of its buffers."""
_DRIVER_PYTHON_MIB: Final = 768
_TASK_TRIES: Final = 4
"""As on a cluster: in local mode Spark tries a task once."""
_LOOPBACK: Final = "127.0.0.1"


def master(wanted: BucketIngest, settings: JobSettings) -> str:
    """Spark's master: the API server, or the driver itself if there are no executors."""
    spark = wanted.spec.spark
    return f"local[{spark.slots},{_TASK_TRIES}]" if spark.is_driver_only else settings.master


def spark_defaults(
    wanted: BucketIngest,
    settings: JobSettings,
    *,
    namespace: str,
    account: str,
    driver_pod: str,
    executor_prefix: str,
) -> dict[str, str]:
    """Content of spark-defaults.conf. The job itself sets `spark.conf` of the spec, which wins.

    Names are from the Kubernetes page of Spark 4.2.
    """
    spark = wanted.spec.spark
    if spark.is_driver_only:  # nobody outside of the pod connects to it
        return {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}
    executor = spark.executor
    limit = cpu_limit(wanted, executor.cores)
    return {
        **({} if limit is None else {"spark.kubernetes.executor.limit.cores": f"{limit}m"}),
        **SPARK_AUTHENTICATION,
        "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104 - a pod's network
        "spark.driver.blockManager.port": str(BLOCK_PORT),
        "spark.driver.port": str(DRIVER_PORT),
        "spark.executor.cores": str(spark.slots),
        # Spark would end a driver after a few executors that are lost or, each second, refused by a quota. Here the
        # operator judges it, by its commits. Older failures are forgotten.
        "spark.executor.failuresValidityInterval": "1h",
        "spark.executor.maxNumFailures": str(2**31 - 1),
        "spark.executor.instances": str(executor.instances),
        "spark.executor.memory": f"{executor.memory // MIB}m",
        "spark.executor.memoryOverhead": f"{executor_overhead_mib(wanted)}m",
        "spark.kubernetes.authenticate.executor.serviceAccountName": account,
        "spark.kubernetes.container.image": spark.image or settings.image,
        "spark.kubernetes.container.image.pullPolicy": settings.image_pull_policy,
        # Executors have no claims of their own: else Spark asks for them first, without the right to.
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        # With this name Spark makes the driver's pod the only owner of each executor.
        "spark.kubernetes.driver.pod.name": driver_pod,
        # Without it Spark makes a ConfigMap, for which the driver has no right.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.podNamePrefix": executor_prefix,
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR_CONTAINER,
        "spark.kubernetes.executor.podTemplateFile": f"{CONFIG_FOLDER}/{TEMPLATE_FILE}",
        "spark.kubernetes.executor.request.cores": f"{executor.cores}m",
        # Spark means the address to which the driver binds, which is that of all its networks.
        "spark.kubernetes.executor.useDriverPodIP": "false",
        "spark.kubernetes.namespace": namespace,
    }


def cpu_limit(wanted: BucketIngest, cores: int) -> int | None:
    """CPU limit of a pod that requests so much, both in thousandths of a core; None: it has none."""
    limit = wanted.spec.pod.cpu_limit
    return None if limit is None else max(limit, cores)


def executor_overhead_mib(wanted: BucketIngest) -> int:
    """Memory of an executor's pod without the JVM's heap: the JVM's overhead, and a Python worker for each slot."""
    heap = wanted.spec.spark.executor.memory // MIB
    return max(_JVM_OVERHEAD_MIN_MIB, heap // 10) + _workers_mib(wanted)


def _workers_mib(wanted: BucketIngest) -> int:
    """Memory of the Python workers of an executor, or of a driver that does their work."""
    tables = () if wanted.spec.tables is None else wanted.spec.tables.overrides
    most = max(wanted.spec.table.memory_per_task, *(each.table.memory_per_task or 0 for each in tables), 0)
    return wanted.spec.spark.slots * (most // MIB + _WORKER_MIB)


def driver_pod_mib(wanted: BucketIngest) -> int:
    """Memory of the driver's pod: the JVM's heap, and what the spec gives it beside that, or enough for the JVM's
    overhead, Python, and the process of table services; without executors also for the Python workers.
    """
    driver = wanted.spec.spark.driver
    heap = driver.memory // MIB
    if driver.memory_overhead is not None:
        return heap + driver.memory_overhead // MIB
    services = _SERVICES_MIB if wanted.spec.services.run else 0
    workers = _workers_mib(wanted) if wanted.spec.spark.is_driver_only else 0
    return heap + max(_JVM_OVERHEAD_MIN_MIB, heap // 10) + _DRIVER_PYTHON_MIB + services + workers
