"""What an administrator's settings forbid to a BucketIngest: paths, accounts, priorities, tolerations. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bucketingest_operator.decide.spec_changes import table_key
from bucketingest_operator.manifests.attempt_objects import Manifests


def forbidden(made: Manifests) -> str | None:
    """Why the settings do not allow the paths or the ServiceAccount that the resource names, and who can change it."""
    spec, owners = made.wanted.spec, made.settings.table_owners
    if spec.tables is not None:  # whose a table is, and what is rolled back, is decided by one path
        return "spec.tables is for `bucketingest run` only: the operator runs resources with one table."
    for path in (spec.table.path, spec.errors.dead_letter_path, spec.checkpoint.path):
        if path is not None and not may_write(owners, path, made.namespace):
            return f"{path} is for other namespaces: an administrator's job.tableOwners of the chart says for which."
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
    """Whether pipelines of a namespace may write below a path, by an administrator's map of prefixes to namespaces."""
    key = f"{table_key(path)}/"
    prefixes = {prefix: f"{table_key(prefix).rstrip('/')}/" for prefix in owners}
    matching = [prefix for prefix, spelled in prefixes.items() if key.startswith(spelled)]
    return not matching or namespace in owners[max(matching, key=lambda each: len(prefixes[each]))]
