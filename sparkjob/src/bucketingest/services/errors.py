"""What keeps a table service from its work."""

from __future__ import annotations

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


class ServiceError(BucketIngestError):
    """Base of every error of the table services."""

    exit_code = ExitCode.TABLE_REFUSED


class PlanOutdated(ServiceError):
    """Something came between a plan and its request: the next plan takes it in."""

    exit_code = ExitCode.WRITE_CONFLICT


class RoundEnded(ServiceError):
    """The round was closed or decided, or its compaction is no longer pending: its executor stops."""


class ClusteringInDoubt(ServiceError):
    """A clustering was decided, and may be complete or not: the job must not write before its next start has
    settled that.
    """

    exit_code = ExitCode.WRITE_CONFLICT


class CleanRefused(ServiceError):
    """A pending clean must not delete its files now: a reader, a savepoint or a restore may need them."""


class NotHandedOver(ServiceError):
    """A writer without a bucket index cannot take the table over as it is."""


class PodsMissing(ServiceError):
    """A Job was wanted for a compaction, and no pod has started to work on it, or all of them have stopped."""


class StepFailed(ServiceError):
    """A step of a table service ended with an error that it does not know: of the local disk, or a defect."""


class WorkerDied(ServiceError):
    """The process beside the job was killed, or cannot be started."""

    exit_code = ExitCode.OUT_OF_MEMORY
