"""The command `bucketingest-operator`: reads its options and runs the operator until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bucketingest.errors import BucketIngestError
from bucketingest_operator.guards.http_server import split_address
from bucketingest_operator.guards.uninstall import may_uninstall
from bucketingest_operator.guards.webhook import Webhook
from bucketingest_operator.kube.connection import own_namespace
from bucketingest_operator.kube.leadership import LEASE_NAME
from bucketingest_operator.logs import configure_logs
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.manifests.settings_file import load_settings
from bucketingest_operator.wiring import Operator, Options

log = logging.getLogger(__name__)

PREFIX: Final = "BUCKETINGEST_"
_OPTIONS: Final[tuple[tuple[str, str, str | int | None, str], ...]] = (
    ("job-settings", "FILE", None, "YAML with settings of all jobs"),
    ("listen", "HOST:PORT", ":9810", "address of /healthz, /readyz and /metrics (default: %(default)s)"),
    ("leader-election-namespace", "NAMESPACE", None, "namespace of the Lease (default: the namespace of this pod)"),
    (
        "leader-election-name",
        "NAME",
        LEASE_NAME,
        "name of the Lease; operators that watch different namespaces need different ones (default: %(default)s)",
    ),
    ("max-restarts", "N", 10, "restarts at the same time after changed specs or annotations (default: %(default)s)"),
    (
        "webhook-certificate",
        "FOLDER",
        None,
        "serve the validating webhook with tls.crt and tls.key of this folder (default: no webhook)",
    ),
    ("webhook-port", "PORT", 9811, "port of the webhook, on all addresses (default: %(default)s)"),
)
"""Options with one value: name, what it is, default, help."""


def _parser(env: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bucketingest-operator",
        description="Runs BucketIngest resources of a Kubernetes cluster.",
        epilog=f"An environment variable can set each option too: {PREFIX}LOG_FORMAT sets --log-format.",
    )
    parser.add_argument(
        "--namespace",
        action="append",
        metavar="NAMESPACE",
        help="watch only this namespace; may be repeated, or be a comma-separated list; default: the whole cluster",
    )
    for name, what, default, words in _OPTIONS:
        given = env.get(name.replace("-", "_").upper(), default)
        parser.add_argument(
            f"--{name}", metavar=what, type=int if isinstance(default, int) else str, default=given, help=words
        )
    parser.add_argument(
        "--may-uninstall",
        action="store_true",
        help="do not run: exit code 1 if a BucketIngest could not be deleted without an operator",
    )
    parser.add_argument("--log-format", choices=["json", "text"], default=env.get("LOG_FORMAT", "json"))
    parser.add_argument("--debug", action="store_true", default=env.get("DEBUG", "").lower() in {"1", "true"})
    return parser


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> argparse.Namespace:
    """Options of the command line, else of the environment."""
    env = {name.removeprefix(PREFIX): value for name, value in environment.items() if name.startswith(PREFIX) and value}
    parser = _parser(env)
    options = parser.parse_args(arguments)
    named = options.namespace or env.get("NAMESPACE", "").split(",")
    options.namespace = tuple(dict.fromkeys(each.strip() for name in named for each in name.split(",") if each.strip()))
    if options.log_format not in {"json", "text"}:
        parser.error(f"log format {options.log_format!r} is neither json nor text")
    if options.max_restarts < 1:
        parser.error(f"--max-restarts is {options.max_restarts}: it must be 1 or more")
    try:
        split_address(options.listen)
    except ValueError as error:
        parser.error(str(error))
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator. 0 after SIGTERM or SIGINT, 2 for wrong options, 1 after a failure."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments, os.environ)
    configure_logs(options.log_format, debug=options.debug)
    try:
        settings = JobSettings() if options.job_settings is None else load_settings(options.job_settings)
    except BucketIngestError as error:
        log.error("wrong job settings", extra={"error": str(error)})  # noqa: TRY400 - a user's mistake needs no traceback
        return 2
    if options.may_uninstall:
        return _run_to_end(lambda: _may_uninstall(options.namespace))
    lease_namespace = options.leader_election_namespace or own_namespace() or "default"
    lease = (lease_namespace, options.leader_election_name)
    folder = options.webhook_certificate
    webhook = None if folder is None else Webhook(options.webhook_port, Path(folder))
    chosen = Options(options.namespace, options.listen, *lease, settings, options.max_restarts, webhook)
    return _run_to_end(lambda: _run(chosen))


def _run_to_end(what: Callable[[], Coroutine[Any, Any, int]]) -> int:
    try:
        return asyncio.run(what())
    except BucketIngestError as error:
        log.error("the operator cannot run", extra={"error": str(error)})  # noqa: TRY400
        return 1
    except Exception:
        log.exception("the operator has failed")
        return 1


async def _run(options: Options) -> int:
    await Operator(options).run()
    return 0


async def _may_uninstall(namespaces: Sequence[str]) -> int:
    return 0 if await may_uninstall(namespaces) else 1


if __name__ == "__main__":
    sys.exit(main())
