"""What whoever installs the operator decides about all jobs: images, identities, placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How pods of jobs are made, beyond what a BucketIngest says.

    Attributes:
        image: For resources that name none.
        grace: What a driver has to commit and end; its pod gets some seconds more.
        env_from_secrets: Names of Secrets in the job's namespace whose keys become environment variables, such as
            credentials for storage. One that does not exist is passed over.
        service_account_annotations: By which cloud providers give an identity to pods.
    """

    image: str = "bucketingest-job:latest"
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    grace: timedelta = timedelta(seconds=60)
    run_as_user: int = 10001
    env_from_secrets: tuple[str, ...] = ()
    service_account_annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    master: str = "k8s://https://kubernetes.default.svc:443"
    cluster_domain: str = "svc"
