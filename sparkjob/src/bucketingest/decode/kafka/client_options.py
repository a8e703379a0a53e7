"""Options of Java's Kafka client as those of librdkafka, where they surely mean the same: whoever set them must get the
connection, the trust and the isolation that Spark's own reader would have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bucketingest.redaction import Redactor

Properties: TypeAlias = dict[str, str | int | bool]

_PREFIX: Final = "kafka."
_SAME: Final[dict[str, str]] = {
    "client.id": "client.id",
    "client.rack": "client.rack",
    "group.id": "group.id",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "ssl.key.password": "ssl.key.password",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_READ_HERE: Final = frozenset(
    [
        "isolation.level",
        "sasl.jaas.config",
        "sasl.mechanism",
        "security.protocol",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "ssl.truststore.type",
    ]
)
_WITHOUT_MEANING: Final = frozenset(
    [
        "allow.auto.create.topics",
        "check.crcs",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "heartbeat.interval.ms",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "receive.buffer.bytes",
        "send.buffer.bytes",
        "session.timeout.ms",
    ]
)
"""They change no message. Sizes and waits are those below; the group has no members; checksums are checked."""
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_LOGIN: Final = re.compile(r"\s*(?P<module>[\w.]+)\s+required\s+(?P<options>.*?)\s*;\s*", re.DOTALL)
_LOGIN_OPTION: Final = re.compile(r'\s*(\w+)\s*=\s*"([^"\\\n]*)"(?=\s|$)')
_GROUP_PREFIX: Final = "spark-kafka-source"
_SECRETS: Final = ("sasl.password", "ssl.key.password", "ssl.key.pem")

_FIXED: Final[Properties] = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "log_level": 0,
    # What waits to be taken is bounded: the budget of a task is for rows. With a longer pause between fetches, which is
    # for slow readers, most of the time is waiting.
    "queued.min.messages": 5000,
    "queued.max.messages.kbytes": 8 * 1024,
    "fetch.queue.backoff.ms": 1,
    # A fetch at the end of a partition is answered so much later, and the next partition waits for that.
    "fetch.wait.max.ms": 5,
    "socket.nagle.disable": True,
}


class NotTranslated(Exception):
    """Spark has to read, in words that say why."""


@dataclass(frozen=True, slots=True)
class Client:
    """How a task connects. Picklable; its text has no secrets."""

    properties: Properties = field(repr=False)
    """Of librdkafka."""

    def without_secrets(self, text: str) -> str:
        """What a client said, should it have repeated a secret."""
        return Redactor(str(self.properties[name]) for name in _SECRETS if name in self.properties)(text)


def client_of(servers: str, options: Mapping[str, object]) -> Client:
    """The client for the options of Spark's Kafka source. Raises NotTranslated, which repeats no value of a secret
    option. Pure.
    """
    given: dict[str, str] = {}
    prefix = _GROUP_PREFIX
    for name, value in options.items():
        if name.lower() == "groupidprefix":
            prefix = str(value)
        if not name.lower().startswith(_PREFIX):
            continue
        known = name[len(_PREFIX) :]
        if known not in _SAME and known not in _READ_HERE and known not in _WITHOUT_MEANING:
            raise NotTranslated(f"the options set {name}, which only Java's client knows")
        given[known] = str(value)
    made: Properties = {"bootstrap.servers": servers, "group.id": f"{prefix}-bucketingest"}
    made |= {_SAME[name]: value for name, value in given.items() if name in _SAME}
    made["isolation.level"] = _isolation(given)
    made |= _security(given)
    return Client(made | _FIXED)


def _isolation(given: Mapping[str, str]) -> str:
    level = given.get("isolation.level", "read_committed")
    if level not in {"read_uncommitted", "read_committed"}:
        raise NotTranslated(f"kafka.isolation.level is {level}")
    return level


def _security(given: Mapping[str, str]) -> Properties:
    protocol = given.get("security.protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise NotTranslated(f"kafka.security.protocol is {protocol}")
    made: Properties = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        made |= _trust(given)
    if protocol.startswith("SASL"):
        made |= _login(given)
    return made


def _trust(given: Mapping[str, str]) -> Properties:
    made: Properties = {}
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm.lower() not in {"https", ""}:
        raise NotTranslated(f"kafka.ssl.endpoint.identification.algorithm is {algorithm}")
    made["ssl.endpoint.identification.algorithm"] = algorithm.lower() or "none"
    for store in ("truststore", "keystore"):
        kind = given.get(f"ssl.{store}.type", "JKS")
        has_one = any(name.startswith(f"ssl.{store}.") for name in given)
        if has_one and kind != "PEM":
            raise NotTranslated(f"kafka.ssl.{store}.type is {kind}, and only PEM is not Java's own")
    if location := given.get("ssl.keystore.location"):
        made |= {"ssl.certificate.location": location, "ssl.key.location": location}
    if location := given.get("ssl.truststore.location"):
        made["ssl.ca.location"] = location
    elif "ssl.truststore.certificates" not in given:
        made["ssl.ca.location"] = "probe"  # the machine's certificates, as Java's own store is made of them
    return made


def _login(given: Mapping[str, str]) -> Properties:
    mechanism = given.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _LOGIN_MODULES:
        raise NotTranslated(f"kafka.sasl.mechanism is {mechanism}")
    found = _LOGIN.fullmatch(given.get("sasl.jaas.config", ""))
    if found is None or found["module"] != _LOGIN_MODULES[mechanism]:
        raise NotTranslated(f"kafka.sasl.jaas.config is not only a login with name and password for {mechanism}")
    pairs = _LOGIN_OPTION.findall(found["options"])
    rest = _LOGIN_OPTION.sub("", found["options"]).strip()
    options = dict(pairs)
    if rest or len(pairs) != 2 or set(options) != {"username", "password"}:
        raise NotTranslated("kafka.sasl.jaas.config has other options than username and password, or a \\ in one")
    return {
        "sasl.mechanism": mechanism,
        "sasl.username": options["username"],
        "sasl.password": options["password"],
    }
