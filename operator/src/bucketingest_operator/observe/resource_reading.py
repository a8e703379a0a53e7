"""Reads a BucketIngest's JSON; what cannot be used becomes problems. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.fields.tables import PLACEHOLDER
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.reading.load import parse_object, without_unknown
from bucketingest.spec.reading.plain_text import plain
from bucketingest.spec.status import Status
from bucketingest_operator.decide.spec_changes import table_key, with_image
from bucketingest_operator.manifests.attempt_input import NONCE_MAX
from bucketingest_operator.observe.pod_reading import read_time
from bucketingest_operator.resource import PAUSE_ANNOTATION, RESTART_ANNOTATION, Resource

Object = dict[str, Any]

_METADATA: Final = ("name", "namespace", "labels")
"""Newer API servers may add fields to an object's metadata."""
_READ: Final = (PAUSE_ANNOTATION, RESTART_ANNOTATION)


def read_resource(body: Object, before: Resource | None = None, image: str = "") -> Resource:
    """The BucketIngest as values. `before`: the same one, read earlier: an unchanged spec is not parsed again. `image`:
    of a spec that names none: so another default is a changed spec, with all that protects from one.
    """
    metadata = body["metadata"]
    # Only those that mean something, and not all of a long one: every decision is logged with them.
    given = metadata.get("annotations") or {}
    annotations = {name: plain(str(given[name])[:NONCE_MAX]) for name in _READ if name in given}
    same = (
        before is not None
        and before.uid == metadata["uid"]
        and before.generation == metadata.get("generation", 0)
        and before.annotations == annotations
    )
    if before is not None and same:
        wanted, problems, unknown = before.wanted, before.problems, before.unknown
        has_default = before.has_default_image
    else:
        wanted, problems, unknown = read_wanted(body)
        has_default = wanted is not None and wanted.spec.spark.image is None
        wanted = with_image(wanted, image) if wanted is not None and has_default and image else wanted
    return Resource(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        created_at=read_time(metadata["creationTimestamp"]),
        version=metadata["resourceVersion"],
        wanted=wanted,
        problems=problems,
        annotations=annotations,
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting="deletionTimestamp" in metadata,
        status=read_status(body.get("status")),
        unknown=unknown,
        has_default_image=has_default,
        suspends=isinstance(spec := body.get("spec"), Mapping) and spec.get("suspend") is True,
    )


def read_wanted(body: Object) -> tuple[BucketIngest | None, tuple[Problem, ...], tuple[str, ...]]:
    """The spec, its problems, and its fields that a newer definition knows and this version does not."""
    spec = body.get("spec")
    metadata = {name: value for name, value in body["metadata"].items() if name in _METADATA}
    unknown: list[str] = []
    content = {**body, "metadata": metadata, "spec": spec if spec is not None else {}}
    try:
        return parse_object(content, on_unknown=unknown.extend), (), tuple(unknown)
    except SpecError as error:
        return None, tuple(error.problems), tuple(unknown)
    except Exception as error:  # noqa: BLE001 - whatever a tenant writes is his own problem, not the operator's
        problem = Problem("spec", f"cannot be read: {type(error).__name__}", "values as docs/reference.md has them")
        return None, (problem,), ()


def read_status(content: Any) -> Status:
    """The status; only its valid fields if some are invalid. A newer operator may have written more of them."""
    if not isinstance(content, Mapping):
        return Status()
    content, _ = without_unknown(Status, content)
    try:
        return Status.from_document(dict(content))
    except Exception:  # noqa: BLE001 - the next pass writes it anew
        usable = {name: value for name, value in content.items() if _usable(name, value)}
        return Status.from_document(usable)


def _usable(name: str, value: Any) -> bool:
    try:
        Status.from_document({name: value})
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def table_of(body: Object) -> str | None:
    """The table that a BucketIngest names, in one spelling, even if the rest of its spec is wrong.

    Of many tables: their path and topics. Where only some topics are those of another resource, the lease of each
    table decides: a text of a tenant's that is a regular expression may take for ever.
    """
    spec = body.get("spec")
    path = _at(spec, "table", "path")
    if not isinstance(path, str) or not path:
        return None
    if PLACEHOLDER not in path:
        return table_key(path)
    topics, pattern = (_at(spec, "source", "kafka", name) for name in ("topics", "topicPattern"))
    return f"{table_key(path)} of {pattern or sorted(map(str, topics if isinstance(topics, list) else ()))}"


def _at(node: Any, *names: str) -> Any:
    for name in names:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node
