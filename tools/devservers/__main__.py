"""Run a command with servers beside it: `python -m devservers --kafka --s3 -- COMMAND ...`.

The command finds them in its environment: KAFKA_BOOTSTRAP_SERVERS; AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ALLOW_HTTP and S3_BUCKET_URL, an empty bucket. They end with the command.
"""

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence

from devservers.kafka import KafkaBroker
from devservers.locations import MissingDependencyError
from devservers.process import ServerError
from devservers.s3 import S3Server


def main(arguments: Sequence[str] | None = None) -> int:
    """Start what is asked for, run the command, stop everything; returns the command's exit code."""
    parser = argparse.ArgumentParser(prog="devservers", description="Run a command with servers beside it.")
    parser.add_argument("--kafka", action="store_true", help="a Kafka broker: $KAFKA_BOOTSTRAP_SERVERS")
    parser.add_argument(
        "--s3", action="store_true", help="an S3 server: $AWS_ENDPOINT_URL, $S3_BUCKET_URL, credentials"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("no command given")
    with contextlib.ExitStack() as servers:
        environment = dict(os.environ)
        try:
            if options.kafka:
                environment["KAFKA_BOOTSTRAP_SERVERS"] = servers.enter_context(KafkaBroker()).bootstrap_servers
            if options.s3:
                environment |= _s3_environment(servers.enter_context(S3Server()))
        except (MissingDependencyError, ServerError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
        return _run(command, environment)


def _s3_environment(server: S3Server) -> dict[str, str]:
    return {**server.environment, "S3_BUCKET_URL": server.create_bucket("dev")}


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # Ctrl-C reached the command as well; it decides when it has finished


if __name__ == "__main__":
    sys.exit(main())
