"""Why a cluster cannot be had: one family, so that tests can tell it from a defect."""


class ClusterError(Exception):
    """Something on the way to a cluster failed; the message says what, and what to do."""


class CannotRunError(ClusterError):
    """The embedded node cannot run on this machine at all."""
