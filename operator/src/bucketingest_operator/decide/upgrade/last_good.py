"""Which spec the next attempt runs: the one that is wanted, or the last one that committed."""

from __future__ import annotations

from typing import Final

from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Attempt, Trial, UpgradeStatus
from bucketingest_operator.decide.failures import diagnose
from bucketingest_operator.decide.spec_changes import cluster_problems, digest, fixed_digest
from bucketingest_operator.observation import Observation

FAILED: Final = "Failed"
"""Result of a preflight: the spec is not taken over."""


def spec_to_run(seen: Observation) -> BucketIngest | None:
    """The spec of the next attempt: the last one that committed if the wanted one has failed, or cannot be used.

    None if no spec can be used.
    """
    wanted, good = seen.resource.wanted, last_good(seen)
    if wanted is None or seen.resource.problems or cluster_problems(wanted):
        return good
    refused = good is not None and fixed_digest(good) != fixed_digest(wanted)
    return good if good is not None and (refused or is_back(seen)) else wanted


def last_good(seen: Observation) -> BucketIngest | None:
    """The last spec that committed, as it was, if another one is wanted.

    Only if it is the one that the status names: anyone who may create ConfigMaps can make another.
    """
    good, upgrade = seen.last_good, seen.resource.status.upgrade
    if good is None or upgrade is None or digest(good) != upgrade.digest or cluster_problems(good):
        return None
    names = {"name": seen.resource.name, "namespace": seen.resource.namespace}
    return good.model_copy(update={"metadata": good.metadata.model_copy(update=names)})


def is_back(seen: Observation) -> bool:
    """Whether the wanted spec has failed, so that the last one that committed runs until a person changes something."""
    found, wanted = trial(seen), seen.resource.wanted
    if found is None or found.failed_at is None or wanted is None:
        return False
    if found.digest != digest(wanted) or asked_again(seen):
        return False
    # It may commit while it is being stopped.
    return not (has_committed(seen) and _newest_digest(seen) == found.digest)


def trial(seen: Observation) -> Trial | None:
    """The spec on trial, as the status has it."""
    upgrade = seen.resource.status.upgrade
    return None if upgrade is None else upgrade.trial


def failed_preflight(upgrade: UpgradeStatus | None) -> bool:
    """Whether the spec on trial has failed before any driver ran it."""
    if upgrade is None or upgrade.trial is None or upgrade.preflight is None or upgrade.trial.failed_at is None:
        return False
    return upgrade.preflight.result == FAILED and upgrade.preflight.digest == upgrade.trial.digest


def asked_again(seen: Observation) -> bool:
    """Whether a person has asked for a restart since the newest attempt started."""
    current = newest(seen)
    given = None if current is None else seen.inputs.get(current.number)
    return given is not None and given.nonce != seen.resource.nonce


def has_committed(seen: Observation) -> bool:
    """Whether the newest attempt has made a commit, or has found no more input than it has committed, and ended."""
    current = newest(seen)
    if current is None or current.ended_at is not None:
        return False
    pod, report = seen.driver(current.number), seen.contact.report
    if pod is None:
        return False
    if pod.report is not None and pod.report.commits:
        return True
    if not pod.can_run:
        return diagnose(pod) is None
    return report is not None and report.commits > 0


def newest(seen: Observation) -> Attempt | None:
    """The newest attempt in the status."""
    attempts = seen.resource.status.attempts
    return attempts[-1] if attempts else None


def _newest_digest(seen: Observation) -> str | None:
    current = newest(seen)
    given = None if current is None else seen.inputs.get(current.number)
    return None if given is None else given.spec_digest
