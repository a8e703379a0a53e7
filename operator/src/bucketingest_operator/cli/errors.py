"""Errors of the commands that use a cluster."""

from __future__ import annotations

from bucketingest.cli.errors import BadOption


class ClusterError(BadOption):
    """The cluster does not answer, or lacks the object; the message says what to do."""


class ContainerUnreachable(ClusterError):
    """No command can be run in the container."""


class NotThere(ClusterError):
    """The object does not exist."""


class Denied(ClusterError):
    """The user lacks the right to read it."""


class NoBundle(BadOption):
    """A file is not a bundle that `diagnose` wrote."""
