"""A command line as a user types it, and files and tables to give to it."""

from pathlib import Path

import pytest

from bucketingest.cli.main import call
from support.jobs.commands import Command, Ended

RESOURCE = """\
apiVersion: bucketingest.dev/v1alpha1
kind: BucketIngest
metadata:
  name: orders
spec:
  source:
    rate:
      rowsPerSecond: 10
  table:
    path: {path}
    recordKey: [value]
    orderingField: timestamp
    index:
      buckets: 4
"""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command line in this process."""

    def run(*arguments: object) -> Ended:
        code = call([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(int(code), captured.out, captured.err)

    return run


@pytest.fixture
def resource_file(tmp_path: Path) -> Path:
    """A BucketIngest without mistakes."""
    file = tmp_path / "orders.yaml"
    file.write_text(RESOURCE.format(path=tmp_path / "orders"))
    return file
