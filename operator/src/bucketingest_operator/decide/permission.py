"""What an administrator's settings forbid to a BucketIngest: paths, accounts, priorities, tolerations. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bucketingest.spec.fields.tables import PLACEHOLDER
from bucketingest.spec.model import STATE_FOLDER, BucketIngest
from bucketingest_operator.decide.spec_changes import table_key
from bucketingest_operator.manifests.attempt_objects import Manifests


def forbidden(made: Manifests) -> str | None:
    """Why the settings do not allow the paths or the ServiceAccount that the resource names, and who can change it."""
    spec, owners = made.wanted.spec, made.settings.table_owners
    checkpoint = spec.checkpoint.path
    if checkpoint is None and spec.tables is None and not made.wanted.checkpoint_path.startswith(f"{STATE_FOLDER}/"):
        checkpoint = made.wanted.checkpoint_path  # beside a local table
    for path in (spec.table.path, made.wanted.dead_letter_path, checkpoint):
        wrong = (each for each in _with_topics(made.wanted, path) if not may_write(owners, each, made.namespace))
        if (found := next(wrong, None)) is not None:
            what = "may be for other namespaces with some topic" if PLACEHOLDER in found else "is for other namespaces"
            return f"{found} {what}: an administrator's job.tableOwners of the chart says which are for whom."
    priority = spec.pod.priority_class_name or ""
    if priority.startswith("system-") or not _among(made.settings.allowed_priority_classes, priority):
        return f"spec.pod.priorityClassName {priority} is not in job.allowedPriorityClasses of the chart."
    for each in spec.pod.tolerations:
        if each.key is None or not _among(made.settings.allowed_toleration_keys, each.key):
            return (
                f"spec.pod.tolerations: {each.key or 'every taint'} is not in job.allowedTolerationKeys of the chart."
            )
    if made.allowed:
        return None
    place = f"{made.namespace}/{made.settings.account}"
    return (
        f"spec.pod.serviceAccountName is {made.settings.account}, which the operator's settings do not allow here: an "
        f"administrator adds {place} to job.allowedServiceAccounts of the chart."
    )


def _among(allowed: frozenset[str], name: str) -> bool:
    return not name or not allowed or name in allowed


def may_write(owners: Mapping[str, Sequence[str]], path: str, namespace: str) -> bool:
    """Whether pipelines of a namespace may write below a path, by an administrator's map of prefixes to namespaces.

    The longest prefix of the path counts. With `{topic}` in it, also each that is as long or longer for any topic.
    """
    parts = table_key(path).split("/")
    prefixes = {prefix: table_key(prefix).rstrip("/").split("/") for prefix in owners}
    sure = max((len(prefix) for prefix in prefixes.values() if parts[: len(prefix)] == prefix), default=0)
    return all(
        namespace in owners[prefix]
        for prefix, others in prefixes.items()
        if sure <= len(others) <= len(parts) and all(map(_may_be, parts, others))
    )


def _may_be(part: str, other: str) -> bool:
    """Whether a part of a path is another one, for any topic: a name of a topic has no slash."""
    before, topic, rest = part.partition(PLACEHOLDER)
    after = rest.rpartition(PLACEHOLDER)[2]
    return part == other or (topic != "" and other.startswith(before) and other.endswith(after))


def _with_topics(wanted: BucketIngest, path: str | None) -> Sequence[str]:
    """The path of each topic that the resource names; with a pattern for topics as it is."""
    kafka = wanted.spec.source.kafka
    if path is None or wanted.spec.tables is None or kafka is None or kafka.topics is None:
        return () if path is None else (path,)
    return [path.replace(PLACEHOLDER, topic) for topic in kafka.topics]
