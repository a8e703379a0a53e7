"""The error family of the commands that speak with a cluster."""

from __future__ import annotations

from bucketingest.cli.errors import BadOption


class ClusterError(BadOption):
    """The cluster cannot be asked, or has not what was asked for; the message says what to do."""


class NotThere(ClusterError):
    """There is no such object."""


class Denied(ClusterError):
    """Whoever asks may not see it."""


class NoBundle(BadOption):
    """A file is no bundle that `diagnose` wrote."""
