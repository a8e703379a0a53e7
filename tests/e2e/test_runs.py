"""After `kubectl apply` rows are in the table: on a volume and on S3, through kills of every kind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.spec.quantity import parse_quantity
from devcluster.cluster import Cluster
from devcluster.release import helm
from devservers.certificates import Authority
from devservers.kafka import KafkaBroker
from devservers.s3 import S3Server
from support.cluster.faults import kill_first_process, resident_bytes, stop_processes
from support.cluster.kube import Kube, Manifest, outline
from support.cluster.pipeline import UID_LABEL, Pipeline
from support.cluster.strangers import FILE_IN_POD, secret_of, strangers

NewPipeline = Callable[..., Pipeline]


def test_helm_test_reports_a_healthy_operator(release: Cluster) -> None:
    assert "Succeeded" in helm(release, "test", "bucketingest", "--timeout", "60s")


def test_a_pipeline_on_a_volume_is_for_itself_and_survives_what_happens_to_its_pods(
    on_volume: NewPipeline, values: Manifest
) -> None:
    orders = on_volume("orders")
    orders.load()
    applied = time.time()
    orders.kube.create(orders.manifest())
    orders.wait("apply -> driver pod", orders.drivers)
    orders.wait_for_commit(applied, "apply")
    orders.wait_for_condition("Ready", "True")
    their_jvms_start_with_the_class_archive(orders)
    secret = only_its_executors_reach_the_driver(orders, values["job"]["image"])

    # the driver's process is killed
    lost = orders.drivers()[-1]
    kill_first_process(lost)
    orders.wait_for_commit_of(2, "driver SIGKILL")
    env = {each["name"]: each.get("value") for each in orders.drivers()[-1]["spec"]["containers"][0]["env"]}
    assert env["BUCKETINGEST_ENDED_DRIVERS"] == lost["metadata"]["name"], "it need not wait for the lease"
    assert secret_of(orders.drivers()[-1]) != secret, "each attempt has its own"

    # a user deletes all that `kubectl get all` shows: pods and Services, no pipeline
    said = orders.kube.kubectl("delete", "all", "--all", "--namespace", orders.namespace, "--wait=false")
    assert "pod" in said
    assert "service" in said
    assert "bucketingest.bucketingest.dev" not in said
    orders.wait_for_commit_of(3, "all deleted")

    # Spark replaces an executor: no new attempt
    killed = time.time()
    kill_first_process(orders.executors()[-1])
    orders.wait_for_commit(killed + 1, "executor SIGKILL")
    assert orders.attempt() == 3, outline(orders.get())

    orders.judge()
    owner = (orders.get() or {})["metadata"]["uid"]
    owned = "secret,networkpolicy", "--namespace", orders.namespace, "--selector", f"{UID_LABEL}={owner}"
    assert orders.kube.kubectl("get", *owned, "-o", "name").count("networkpolicy") == 1
    orders.remove()
    orders.wait("nothing left", lambda: not orders.kube.kubectl("get", *owned, "-o", "name"))


def their_jvms_start_with_the_class_archive(pipeline: Pipeline) -> None:
    """Else the JVM would say nothing, and be slower."""
    for pod in (pipeline.drivers()[-1], pipeline.executors()[-1]):
        maps = ["bash", "-c", "grep -ho '/[^ ]*[.]jsa$' /proc/[0-9]*/maps | sort -u"]
        assert "/opt/bucketingest/archive/spark.jsa" in pipeline.kube.execute(
            pipeline.namespace, pod["metadata"]["name"], maps
        )


def only_its_executors_reach_the_driver(pipeline: Pipeline, image: str) -> str:
    """Name of the Secret that they share. Nothing shows what is in it, and no executor is lost meanwhile."""
    (driver,), (executor,) = pipeline.drivers(), pipeline.executors()
    secret, where = secret_of(driver), ["--namespace", pipeline.namespace]
    assert secret_of(executor) == secret

    said = strangers(pipeline, image, secret)
    assert "rpc REACHED" in said["insider"], said
    assert "blocks REACHED" in said["insider"], said
    for who in ("nobody", "guesser"):
        assert "rpc REFUSED" in said[who], said
        assert "blocks REFUSED" in said[who], said
        assert "REACHED" not in said[who], said
    assert [each["metadata"]["name"] for each in pipeline.executors()] == [executor["metadata"]["name"]]

    coded = pipeline.kube.kubectl("get", *where, "secret", secret, "-o", "jsonpath={.data.secret}")
    value = pipeline.kube.execute(pipeline.namespace, driver["metadata"]["name"], ["cat", FILE_IN_POD])
    everything = pipeline.kube.kubectl("get", "bi,pods,configmaps,events", *where, "-o", "yaml")
    for pod in (driver, executor):
        everything += pipeline.kube.logs(pipeline.namespace, pod["metadata"]["name"], 10_000)
    for text in (value.strip(), coded.strip()):
        assert text
        assert text not in everything
    return secret


def test_a_pipeline_on_s3_survives_expired_credentials_and_the_end_of_the_pods_that_merge(
    on_s3: NewPipeline, s3_server: S3Server
) -> None:
    parcels = on_s3("parcels")
    parcels.load(seed=2)
    job = {"cores": "100m", "memory": "512Mi"}
    services = {"mode": "job", "compaction": {"logFiles": 2, "job": job}}
    keys = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret"}
    env = [{"name": name, "secretKeyRef": {"name": "parcels", "key": key}} for name, key in keys.items()]
    give_keys(parcels, s3_server, "parcels-1")
    applied = time.time()
    parcels.kube.apply(
        parcels.manifest({"table": {"index": {"buckets": 24}}, "services": services, "pod": {"env": env}})
    )
    parcels.wait_for_commit(applied, "apply")

    # others rotate the keys; nobody touches the resource
    give_keys(parcels, s3_server, "parcels-2")
    s3_server.remove_account("parcels-1")
    parcels.wait("denied", lambda: parcels.first_outcome() is not None)
    assert parcels.first_outcome() == "AccessDenied", parcels.state()
    parcels.wait_for_commit_of(2, "credentials expired")

    # pods merge; both end before their work does, one without a chance to say so
    compaction, first, second = parcels.wait("pods merge", lambda: _merging(parcels))
    kill_first_process(first)
    parcels.kube.delete_pod(parcels.namespace, second["metadata"]["name"])
    done_then = len(list(compaction.glob("round/1/result/*")))
    parcels.wait("pods killed -> compacted", (compaction / "done").exists)
    assert (compaction / "done").read_text() == "completed"
    assert len(list(compaction.glob("round/1/result/*"))) > done_then, "they had ended before"
    after = time.time()
    parcels.wait_for_commit(after, "compacted")
    parcels.wait("last compaction in the status", lambda: "lastCompaction" in _services(parcels))
    assert parcels.attempt() == 2, "ingestion has not noticed"
    parcels.judge()


def test_a_pipeline_that_hangs_is_noticed_fenced_and_healed(on_volume: NewPipeline) -> None:
    readings = on_volume("readings")
    readings.load(seed=3)
    applied = time.time()
    readings.kube.apply(readings.manifest({"health": {"maxInflightAge": "10s", "maxCommitLag": "20s"}}))
    readings.wait_for_commit(applied, "apply")
    readings.wait_for_condition("Ready", "True")

    # nothing ends, and nothing makes progress: the open instant grows old
    stop_processes(readings.executors()[-1])
    readings.wait("stopped -> noticed (its limit: 10 s)", lambda: readings.first_outcome() == "Stuck")
    readings.wait_for_commit_of(2, "noticed")
    readings.judge()


def give_keys(pipeline: Pipeline, server: S3Server, access_key: str) -> None:
    """New keys in the server, and in the pipeline's Secret."""
    server.add_account(access_key, f"{access_key}-secret")
    give_secret(pipeline, pipeline.name, {"access": access_key, "secret": f"{access_key}-secret"})


def give_certificate(pipeline: Pipeline, authority: Authority, name: str) -> None:
    """A new key and its certificate in the pipeline's Secret, as Strimzi and cert-manager write them."""
    made = authority.issue(name)
    give_secret(pipeline, pipeline.name, {"user.key": made.key, "user.crt": made.certificate})


def give_secret(pipeline: Pipeline, name: str, content: dict[str, str]) -> None:
    metadata = {"namespace": pipeline.namespace, "name": name}
    pipeline.kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": content})


def with_certificates(pipeline: Pipeline, broker: KafkaBroker) -> Manifest:
    """The spec's part for a broker that asks for a certificate: options from single keys of a Secret, and a file."""
    key, certificate = "kafka.ssl.keystore.key", "kafka.ssl.keystore.certificate.chain"
    keys = {key: "user.key", certificate: "user.crt"}
    kafka = {
        "bootstrapServers": broker.tls_bootstrap_servers,
        "options": {
            "kafka.security.protocol": "SSL",
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": "/mnt/kafka-ca/ca.crt",
        },
        "optionsFrom": {name: {"secretKeyRef": {"name": pipeline.name, "key": file}} for name, file in keys.items()},
    }
    volume = {"name": "kafka-ca", "mountPath": "/mnt/kafka-ca", "secret": "kafka-ca"}
    return {"source": {"kafka": kafka}, "pod": {"volumes": [volume]}}


def _merging(pipeline: Pipeline) -> tuple[Path, Manifest, Manifest] | None:
    """The compaction that two pods work on, and these."""
    pods = pipeline.mergers()
    newest = max((pipeline.table / OWN_DIRECTORY / "services/compaction").glob("*"), default=None)
    if newest is None or len(pods) != 2 or not any(newest.glob("round/1/claim/*/*")) or (newest / "done").exists():
        return None
    return newest, pods[0], pods[1]


def _services(pipeline: Pipeline) -> Manifest:
    return dict(((pipeline.get() or {}).get("status") or {}).get("services") or {})


def test_what_was_committed_is_continued_by_the_resource_and_by_a_new_one(
    on_volume: NewPipeline, kafka_broker: KafkaBroker
) -> None:
    visits = on_volume("visits")
    visits.load(seed=4)
    assert kafka_broker.authority is not None
    give_secret(visits, "kafka-ca", {"ca.crt": kafka_broker.authority.file.read_text()})
    give_certificate(visits, kafka_broker.authority, "visits-1")
    applied = time.time()
    visits.kube.apply(visits.manifest(with_certificates(visits, kafka_broker)))
    visits.wait_for_commit(applied, "apply")

    # another certificate, as cert-manager renews it: nobody touches the resource
    give_certificate(visits, kafka_broker.authority, "visits-2")
    visits.wait_for_commit_of(2, "new certificate")
    assert visits.first_outcome() == "DriverStopped", visits.state()

    visits.change({"suspend": True, "services": {"whileSuspended": True, "compaction": {"logFiles": 2}}})
    visits.wait("suspended", lambda: (visits.get() or {})["status"].get("phase") == "Suspended")
    assert not visits.executors()
    table_services_run_while_it_is_suspended(visits)
    resumed = time.time()
    visits.change({"suspend": False})
    visits.wait_for_commit(resumed, "resumed")

    visits.remove()  # in the middle of the load
    again = time.time()
    visits.kube.apply(visits.manifest(with_certificates(visits, kafka_broker)))
    visits.wait_for_commit(again, "deleted and applied again")
    visits.judge()


def table_services_run_while_it_is_suspended(pipeline: Pipeline) -> None:
    """Once a day; for the operator the driver ended hours ago."""
    before = compactions(pipeline)
    last = len(((pipeline.get() or {})["status"])["attempts"]) - 1
    hours_ago = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 7200))
    ended = [{"op": "replace", "path": f"/status/attempts/{last}/endedAt", "value": hours_ago}]
    where = ("bucketingest", pipeline.name, "--namespace", pipeline.namespace, "--subresource=status", "--type=json")
    pipeline.kube.kubectl("patch", *where, "-p", json.dumps(ended))
    done = "suspended -> table services done"
    pipeline.wait(done, lambda: _services(pipeline).get("suspendedRun") in {"Done", "Failed", "Skipped"})
    assert _services(pipeline)["suspendedRun"] == "Done", pipeline.state()
    assert compactions(pipeline) > before
    assert not pipeline.drivers() or all(each["status"]["phase"] == "Succeeded" for each in pipeline.drivers())


def compactions(pipeline: Pipeline) -> int:
    """How many are completed on the table's timeline."""
    return len(list((pipeline.table / ".hoodie" / "timeline").glob("*.commit")))


def test_the_second_resource_on_a_table_waits_and_names_the_first(on_volume: NewPipeline, kube: Kube) -> None:
    first, second = on_volume("first", "shared"), on_volume("second", "shared")
    first.load(seed=5)
    applied = time.time()
    kube.apply(first.manifest({"spark": {"driver": {"memoryOverhead": "1Gi"}, "executor": {"instances": 0}}}))
    first.wait("first has a driver", first.drivers)
    kube.apply(second.manifest())
    said = second.wait_for_condition("Ready", "False", "TableTaken")
    assert "ingest/first" in said["message"]
    first.wait_for_commit(applied, "apply, without executors")
    assert not second.drivers()

    # It does all in one pod, which has no rights, and is healed as others are.
    (driver,) = kube.pods(first.namespace, {UID_LABEL: (first.get() or {})["metadata"]["uid"]})
    assert not driver["spec"]["automountServiceAccountToken"]
    kill_first_process(driver)
    first.wait_for_commit_of(2, "SIGKILL, without executors")
    limit = parse_quantity(driver["spec"]["containers"][0]["resources"]["limits"]["memory"])
    used = resident_bytes(first.drivers()[-1])
    assert used < limit == 1536 * 1024**2
    first.took["MiB of memory that the pod without executors uses"] = used // 2**20
    first.judge()
