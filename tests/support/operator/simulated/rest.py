"""What must hold once nothing goes wrong any more: everything has reached its desired state, and nothing is written."""

from __future__ import annotations

from bucketingest.spec.model import BucketIngest
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.observation import JobState
from support.operator.simulated.fake_cluster import FakeCluster


def is_bad(spec: BucketIngest | None) -> bool:
    """Whether no driver of this spec can ever commit."""
    return spec is not None and spec.spec.source.rate is not None and spec.spec.source.rate.rows_per_second == 4


def check_rest(cluster: FakeCluster) -> None:
    """Nothing happens any more: what is wanted is there, and nothing is written."""
    if cluster.resource.deleting:
        assert cluster.gone, "a deleted resource was never let go"
        return
    status = cluster.resource.status
    wanted = cluster.resource.wanted
    assert wanted is not None
    if status.phase in {"Stalled", "Completed"}:
        assert not cluster.alive()
        given_way = {each.type: each.status for each in status.conditions or ()}.get("Degraded") == "True"
        # A bad spec never stalls a pipeline that has committed: the one that has does, if it fails too.
        assert given_way or status.phase == "Completed" or not is_bad(wanted) or status.upgrade is None
    elif cluster.spec.get("suspend"):
        assert status.phase == "Suspended"
        assert not cluster.alive()
    else:
        assert status.phase == "Running", status
        assert len(cluster.alive()) == 1
        assert status.observed_generation == cluster.resource.generation
        assert cluster.inputs[max(cluster.alive())].nonce == cluster.resource.nonce
        assert cluster.runs is not None
        degraded = next((each.status for each in status.conditions or () if each.type == "Degraded"), "False")
        assert degraded == str(digest(cluster.runs) != digest(wanted))
        assert not is_bad(cluster.runs)
    _check_compactions(cluster)
    _check_preflights(cluster)
    _check_audits(cluster)
    # In the desired state nothing is written, but for the next try of a check.
    for _ in range(3):
        cluster.apply(reconcile(cluster.observe()))
    assert not reconcile(cluster.observe()).actions


def _check_preflights(cluster: FakeCluster) -> None:
    wanted, runs = cluster.resource.wanted, cluster.runs
    assert wanted is not None
    if runs is None or digest(runs) == digest(wanted) or not wanted.spec.upgrade.preflight:
        assert not cluster.preflights, "a Job is left that checks nothing"
    assert {each.digest for each in cluster.preflights.values()} <= {digest(wanted)}


def _check_audits(cluster: FakeCluster) -> None:
    wanted = cluster.resource.wanted
    if wanted is not None and wanted.spec.audit is None:
        assert not cluster.audits, "a Job is left that nobody wants"
    if wanted is not None and wanted.spec.suspend:
        assert not [each for each in cluster.audits.values() if each.state is JobState.RUNNING]


def _check_compactions(cluster: FakeCluster) -> None:
    serving = [each for each in cluster.compactions.values() if each.does_all]
    asked = cluster.resource.wanted is not None and cluster.resource.wanted.spec.services.while_suspended
    assert not serving or (asked and cluster.spec.get("suspend")), "a Job serves a table that nobody wants served"
    running = [each for each in cluster.compactions.values() if each.state is JobState.RUNNING and not each.does_all]
    reported = cluster.progress.services if cluster.progress is not None and cluster.alive() else None
    wanted = None if reported is None else reported.job
    if reported is None and cluster.alive():
        return  # a driver that has not looked at its table wants nothing yet, and a Job that runs may go on
    if wanted is None:
        assert running == [], "a Job runs that nobody wants"
    else:
        (job,) = running
        assert (job.number, job.round) == (wanted.number, wanted.round)
