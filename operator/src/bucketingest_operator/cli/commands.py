"""The commands' arguments and help. Imports nothing slow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bucketingest.cli.errors import BadOption
from bucketingest.spec.quantity import parse_duration

_Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace.", show_default="of the kubeconfig's context"),
]
_Context = Annotated[
    str | None, typer.Option(help="Context of the kubeconfig.", show_default="the current one", metavar="NAME")
]


def diagnose(
    name: Annotated[str | None, typer.Argument(help="Name of a BucketIngest.", show_default=False)] = None,
    namespace: _Namespace = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write.", show_default="bucketingest-NAMESPACE-NAME-TIME.tar.gz"),
    ] = None,
    since: Annotated[
        str, typer.Option(help="How far back the operator's log is read for decisions.", metavar="DURATION")
    ] = "24h",
    operator_namespace: Annotated[
        str | None, typer.Option(help="Namespace of the operator.", show_default="all are searched", metavar="NAME")
    ] = None,
    timeline: Annotated[
        bool, typer.Option(help="Inspect the table too, for which the driver's pod needs 120 MB for a moment.")
    ] = True,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            help="Instead: replay the decisions in a bundle, and show where this version decides differently.",
            metavar="BUNDLE",
        ),
    ] = None,
    context: _Context = None,
) -> None:
    """Write everything that explains a pipeline on Kubernetes into one file, without secrets.

    Spec and status, events, pods, logs, progress, the table's timeline, and the operator's decisions with their
    observations. Nothing is changed. The timeline is read in the driver's pod: no credentials are needed here.
    """
    from bucketingest_operator.cli.diagnose import diagnose_resource, show_replay, within

    if bundle is not None:
        if name is not None:
            raise typer.BadParameter("--replay needs no NAME")
        show_replay(bundle)
        return
    if name is None:
        raise typer.BadParameter("NAME is missing")
    try:
        seconds = int(parse_duration(since).total_seconds())
    except ValueError as error:
        raise BadOption(f"--since: {error}") from error
    from bucketingest_operator.cli.cluster import Cluster
    from bucketingest_operator.cli.collect import Wanted

    cluster = Cluster.find(context)
    wanted = Wanted(namespace or cluster.namespace, name, max(1, seconds), operator_namespace, timeline=timeline)
    diagnose_resource(within(cluster, wanted), cluster, output)


def top(
    namespace: _Namespace = None,
    *,
    every: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Pipelines of all namespaces.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print the table once, as plain text.")] = False,
    interval: Annotated[float, typer.Option(min=0.5, max=3600, help="Seconds between two refreshes.")] = 2.0,
    context: _Context = None,
) -> None:
    """Show all pipelines: phase, last commit, latency, lag, attempts. Reads only from the API server."""
    from bucketingest_operator.cli.cluster import Cluster
    from bucketingest_operator.cli.top import print_once, watch

    cluster = Cluster.find(context)
    where = None if every else namespace or cluster.namespace
    if once:
        print_once(cluster, where)
    else:
        watch(cluster, where, interval)
