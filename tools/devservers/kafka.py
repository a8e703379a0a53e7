"""A real Kafka broker on 127.0.0.1 for tests, demos and benchmarks: one node, KRaft mode, its own temporary folder."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic
from typing_extensions import override

from devservers.certificates import Authority
from devservers.locations import require
from devservers.process import Server, ServerError, ServerProcess, free_ports

START_TIMEOUT_S = 60.0
REQUEST_TIMEOUT_S = 30.0
CLUSTER_ID = "bucketingest-dev-server"
START_ATTEMPTS = 3
LOGIN = ("reader", "known-to-all")
"""Who may connect to the listener that asks for a login."""


class KafkaBroker(Server):
    """One broker. Use it as a context manager, or call `start` and `stop`.

    After `kill` it can be started again with what it had written; after `stop` too if it was given a folder.
    """

    def __init__(
        self, folder: Path | None = None, *, host: str = "127.0.0.1", heap: str = "512m", tls: bool = False
    ) -> None:
        """Keep data and log in `folder` and leave it behind; by default in a temporary one that `stop` removes. `tls`:
        with another listener, for clients that have a certificate of the authority.
        """
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="bucketingest-kafka-"))
        self._host = host
        self._heap = heap
        self._ports: list[int] = []
        self._process: ServerProcess | None = None
        self.authority = Authority(self.folder / "tls") if tls else None

    @property
    def tls_bootstrap_servers(self) -> str:
        """`host:port` for clients with a certificate, known once started."""
        return f"{self._host}:{self._ports[3]}"

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, known once started."""
        return f"{self._host}:{self._ports[0]}"

    @property
    def sasl_servers(self) -> str:
        """`host:port` of the listener that asks for `LOGIN`: SASL_PLAINTEXT with PLAIN or SCRAM-SHA-256."""
        return f"{self._host}:{self._ports[2]}"

    @property
    def log(self) -> Path:
        """What the broker writes to stdout and stderr."""
        return self.folder / "kafka.log"

    @override
    def start(self) -> Self:
        """Start and wait until the broker answers a metadata request.

        Raises:
            MissingDependencyError: the broker's jars are not there yet.
            ServerError: it did not come up; the message has the end of its log.
        """
        for attempt in range(1, START_ATTEMPTS + 1):
            if not self._ports:
                self._ports = free_ports(4, host=self._host)
            try:
                self._start_once()
            except ServerError as error:
                if "Address already in use" not in str(error) or attempt == START_ATTEMPTS:
                    raise
                self._ports = []  # another process was faster
            else:
                break
        return self

    @override
    def stop(self) -> None:
        """End the broker; its data goes too unless a folder was given."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """End the broker as a crash would. `start` brings it back on the same port with the data it had written."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def create_topic(self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until the broker has it."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin = self._admin()  # requests end with the client
        for future in admin.create_topics([topic]).values():
            future.result(REQUEST_TIMEOUT_S)

    def add_partitions(self, name: str, *, total: int) -> None:
        """Let a topic grow to `total` partitions."""
        admin = self._admin()  # requests end with the client
        for future in admin.create_partitions([NewPartitions(name, total)]).values():
            future.result(REQUEST_TIMEOUT_S)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with everything in it."""
        admin = self._admin()  # requests end with the client
        for future in admin.delete_topics([name]).values():
            future.result(REQUEST_TIMEOUT_S)

    def delete_records(self, name: str, partition: int, *, before: int) -> None:
        """Delete a partition's messages up to an offset, as its retention does."""
        admin = self._admin()  # requests end with the client
        for future in admin.delete_records([TopicPartition(name, partition, before)]).values():
            future.result(REQUEST_TIMEOUT_S)

    def deny_groups(self, login: str) -> None:
        """Forbid all with consumer groups, to whoever has the login; others need a rule for it from now on."""
        every, user = ResourcePatternType.LITERAL, f"User:{login}"
        rule = AclBinding(ResourceType.GROUP, "*", every, user, "*", AclOperation.ALL, AclPermissionType.DENY)
        admin = self._admin()  # requests end with the client
        for future in admin.create_acls([rule]).values():
            future.result(REQUEST_TIMEOUT_S)

    def _start_once(self) -> None:
        properties = self.folder / "server.properties"
        self.folder.mkdir(parents=True, exist_ok=True)
        properties.write_text(self._properties())
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(properties)
        self._process = ServerProcess("Kafka broker", self._java("kafka.Kafka", str(properties)), log=self.log)
        admin = self._admin()
        self._process.wait_until(lambda: _answers(admin), timeout_s=START_TIMEOUT_S)

    def _format(self, properties: Path) -> None:
        """Write the empty metadata log that KRaft wants to find."""
        scram = "SCRAM-SHA-256=[name={},password={}]".format(*LOGIN)
        command = self._java(
            "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties), "--add-scram", scram
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False)
        if done.returncode:
            raise ServerError(f"Kafka's storage could not be formatted:\n{done.stdout}{done.stderr}")

    def _java(self, *arguments: str) -> list[str]:
        jars = require("kafka-broker") / "*"
        return [
            "java",
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=4",
            "-cp",
            str(jars),
            *arguments,
        ]

    def _properties(self) -> str:
        broker, controller, sasl, tls = self._ports
        name, password = LOGIN
        ports = {"PLAINTEXT": broker, "CONTROLLER": controller, "SASL": sasl}
        if self.authority is not None:
            ports["TLS"] = tls
        modules = "org.apache.kafka.common.security"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self._host}:{controller}",
            "listeners": ",".join(f"{each}://{self._host}:{port}" for each, port in ports.items()),
            "advertised.listeners": ",".join(
                f"{each}://{self._host}:{port}" for each, port in ports.items() if each != "CONTROLLER"
            ),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl.plain.sasl.jaas.config": (
                f'{modules}.plain.PlainLoginModule required user_{name}="{password}";'
            ),
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
            # Whoever has no login may do all; so may those with one, but what an access rule denies.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.backoff.ms": "500",
        }
        if self.authority is not None:
            settings |= {f"listener.name.tls.ssl.{key}": value for key, value in self._tls(self.authority).items()}
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _tls(self, authority: Authority) -> dict[str, str]:
        own = authority.issue("broker", self._host)
        store = self.folder / "tls" / "broker.pem"
        store.write_text(own.key + own.certificate)
        return {
            "client.auth": "required",
            "keystore.type": "PEM",
            "keystore.location": str(store),
            "truststore.type": "PEM",
            "truststore.location": str(authority.file),
        }

    def _admin(self) -> AdminClient:
        # log_level 0: refused connections while the broker starts are expected
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})


def _answers(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=1.0).brokers)
    except KafkaException:
        return False
