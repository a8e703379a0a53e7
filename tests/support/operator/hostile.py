"""What a tenant with no rights but those in his own namespace may write, in each place that the operator reads.

Each table has the name of a mischief and what is written. The unit tests give each to its reader; one test gives all of
them to a real operator at once.
"""

from __future__ import annotations

import gzip
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from bucketingest.spec.model import API_GROUP, API_VERSION, KIND
from bucketingest_operator.manifests.merging_jobs import COMPACTION, COMPACTION_ROLE
from bucketingest_operator.manifests.pod_specs import HTTP_PORT
from support.http_fake import FakeHandler, FakeServer
from support.operator.observations import report

Object = dict[str, Any]

DEEP: Final = "[" * 5000
DIGITS: Final = "9" * 5000
ESCAPES: Final = "\x1b[2J\x1b]0;you\x07"
_FAILURES: Final = f"{API_GROUP}/failures"
_LONG: Final = "x" * 200_000


def ended(message: str, **changes: Any) -> Object:
    """The status of a driver pod that ended with a termination message."""
    state = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T12:05:00Z", "message": message, **changes}}
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T12:00:00Z"}
    return {
        "phase": "Failed",
        "containerStatuses": [container(state)],
        "conditions": [condition],
    }


def container(state: Object) -> Object:
    """The status of a driver's container."""
    return {"name": "driver", "state": state, "ready": False, "restartCount": 0, "image": "any", "imageID": ""}


CONFIG_MAPS: Final[dict[str, Object]] = {
    "a failure beyond all years": {_FAILURES: "100000000000000000"},
    "a failure of many digits": {_FAILURES: DIGITS},
    "failures without end": {_FAILURES: ",".join(["1700000000"] * 20_000)},
    "a failure in other digits": {_FAILURES: "٣,²"},
    "a digest with escapes": {f"{API_GROUP}/spec-digest": ESCAPES},
    "a digest without end": {f"{API_GROUP}/spec-digest": _LONG},
    "an attempt of many digits": {"label": "9" * 63},
    "an attempt that is no number": {"label": "one"},
}
"""Annotations of an attempt's ConfigMap; `label` is its attempt."""

POD_STATUSES: Final[dict[str, Object]] = {
    "a deep last line of the log": ended(DEEP[:4000]),
    "a deep report": ended('{"message":' + DEEP[:4000]),
    "a last line with a long number": ended('{"event": ' + DIGITS[:4000] + "}"),
    "a last line with escapes": ended(ESCAPES),
    "a report with escapes": ended(json.dumps({"exitCode": 1, "errorClass": ESCAPES, "message": ESCAPES})),
    "a report without end": ended(json.dumps({"exitCode": 1, "errorClass": "Bug", "message": "x" * 100_000})),
    "a report that is a list": ended("[1, 2]"),
    "a report with half a character": ended('{"message": "\\ud800"}'),
    "an end before all years": ended("", finishedAt="0001-01-01T00:00:00Z"),
    "an exit code that no process has": ended("", exitCode=2**31 - 1),
    "a reason without end": {"phase": "Pending", "reason": "x" * 100_000, "message": ESCAPES + "x" * 100_000},
    "a container that waits for ever": {
        "phase": "Pending",
        "containerStatuses": [container({"waiting": {"reason": "ErrImagePull", "message": ESCAPES + "x" * 100_000}})],
    },
}
"""Statuses of driver pods, as whoever may write `pods/status`, or a process in the pod, makes them."""

JOBS: Final[dict[str, Object]] = {
    "a compaction of many digits": {"role": COMPACTION_ROLE, COMPACTION: f"{DIGITS}/1"},
    "a round of other digits": {"role": COMPACTION_ROLE, COMPACTION: "٣/²"},
    "a round without a number": {"role": COMPACTION_ROLE, COMPACTION: "/"},
    "a compaction of nothing that was planned": {"role": COMPACTION_ROLE, COMPACTION: "999999999999999999/1"},
    "a rollback of an attempt that never was": {"role": "rollback"},
    "a check with escapes as its digest": {"role": "preflight", f"{API_GROUP}/preflight-digest": ESCAPES},
    "a check with a digest without end": {"role": "preflight", f"{API_GROUP}/preflight-digest": _LONG},
    "a role that does not exist": {"role": "executor"},
}
"""Annotations of Jobs."""

_KAFKA: Final = {"bootstrapServers": "k:1", "topics": ["t"]}
_JSON: Final = {"type": "json", "schema": "value BIGINT"}


def _offsets(text: str) -> Object:
    return {"source": {"kafka": {**_KAFKA, "startingOffsets": text}}, "format": _JSON}


SPECS: Final[dict[str, Object]] = {
    "deep offsets": _offsets('{"t":' + DEEP + "}"),
    "offsets of many digits": _offsets('{"t":{"0":' + DIGITS + "}}"),
    "a deep schema": {"source": {"kafka": _KAFKA}, "format": {"type": "avro", "schema": DEEP}},
    "a schema of deep structs": {
        "source": {"kafka": _KAFKA},
        "format": {"type": "json", "schema": "value " + "STRUCT<a: " * 3000},
    },
    "a query of deep brackets": {"transform": {"sql": "SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM source"}},
    "a query with escapes": {"transform": {"sql": f"SELECT '{ESCAPES}' FROM source"}},
    "a setting of Spark that is the operator's": {
        "spark": {"conf": {"spark.kubernetes.authenticate.driver.serviceAccountName": "admin"}}
    },
}
"""Parts of specs that the API server takes."""

_WELL: Final = report(name="NAME", namespace="NAMESPACE").model_dump(mode="json", by_alias=True)


def _answer(**changes: Any) -> bytes:
    return json.dumps({**_WELL, **changes}).encode()


ANSWERS: Final[dict[str, bytes | None]] = {
    "rows of many digits": _answer(rows="HERE").replace(b'"HERE"', b"9" * 4299),
    "a speed that is no number": _answer(rowsPerSecond=float("nan")),
    "less than nothing": _answer(rows=-1, bytes=-1, runningSeconds=-1, rowsPerSecond=-1, skew=-1),
    "time without end": _answer(runningSeconds=float("inf")),
    "a deep answer": _answer(verdictReason="HERE").replace(b'"HERE"', DEEP.encode()),
    "escapes": _answer(verdictReason=ESCAPES, pipeline=ESCAPES),
    "a commit that never was": _answer(lastCommit={**_WELL["lastCommit"], "instant": "99999999999999999"}),
    "bytes": b"\xff\xfe\x00" * 100,
    "zeros, compressed": gzip.compress(bytes(20_000_000)),
    "an answer without end": b"{" * 5_000_000,
    "nothing": None,
    "nothing, from another": None,
    "nothing, from a third": None,
}
"""What drivers answer to `/progress`; None: they take the connection and are silent."""


def forged(owner: Object, role: str, name: str, annotations: Object) -> Object:
    """The metadata of an object that looks like one that the operator made for a BucketIngest, and stays when it is
    deleted.
    """
    uid = owner["metadata"]["uid"]
    controller = {"apiVersion": f"{API_GROUP}/{API_VERSION}", "kind": KIND, "name": owner["metadata"]["name"]}
    return {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "finalizers": ["tenant.example/stays"],
        "labels": {
            "app.kubernetes.io/managed-by": "bucketingest-operator",
            f"{API_GROUP}/uid": uid,
            f"{API_GROUP}/attempt": annotations.get("label", "7"),
            f"{API_GROUP}/role": role,
        },
        "annotations": {
            f"{API_GROUP}/spec-digest": "a",
            f"{API_GROUP}/fixed-digest": "b",
            **{each: value for each, value in annotations.items() if "/" in each},
        },
        "ownerReferences": [{**controller, "uid": uid, "controller": True}],
    }


def objects_of(owner: Object) -> Iterator[Object]:
    """All ConfigMaps, Jobs and pods of the tables, forged for a BucketIngest. Statuses are written later."""
    numbers = itertools.count()
    pod = {"restartPolicy": "Never", "containers": [{"name": "driver", "image": "any"}]}
    for marks in CONFIG_MAPS.values():
        metadata = forged(owner, "config", f"config-{next(numbers)}", marks)
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "x" * 500_000}}
    for marks in JOBS.values():
        metadata = forged(owner, marks["role"], f"job-{next(numbers)}", marks)
        spec = {"suspend": True, "template": {"spec": pod}}
        yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    for number in range(len(POD_STATUSES)):
        metadata = forged(owner, "driver", f"pod-{number}", {"tenant.example/x": _LONG})
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


class HostileDriver(FakeServer):
    """Answers `/progress` with one of `ANSWERS`. A context manager."""

    def __init__(self, ip: str, answer: bytes | None, *, name: str, namespace: str) -> None:
        self.asked = threading.Event()
        self.times = 0
        """How often it was asked."""
        self._over = threading.Event()
        outer = self
        if answer is not None:
            answer = answer.replace(b'"NAMESPACE"', f'"{namespace}"'.encode()).replace(b'"NAME"', f'"{name}"'.encode())

        class Handler(FakeHandler):
            def do_GET(self) -> None:
                outer.times += 1
                outer.asked.set()
                if answer is None:
                    outer._over.wait()
                    return
                with suppress(OSError):  # the operator hangs up
                    coding = {"Content_Encoding": "gzip"} if answer.startswith(b"\x1f\x8b") else {}
                    self.answer(200, answer, **coding)

        super().__init__(Handler, ip, HTTP_PORT)

    def __exit__(self, *error: object) -> None:
        self._over.set()
        super().__exit__(*error)
