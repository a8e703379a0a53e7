"""What users see of a pipeline in a terminal: `top`, a bundle of `diagnose` without secrets, commands of runbooks."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from devcluster.binaries import find_tool
from devcluster.cluster import Cluster
from support.cluster.faults import kill_first_process
from support.cluster.people import bucketingest, unpacked
from support.cluster.pipeline import Pipeline
from support.drills.shell import RUNBOOKS, Shell, lines_of

SECRET = "kafka-options"
VALUE = "a-secret-value"
_CHANGING = re.compile(r"kubectl .*\b(patch|annotate)\b")


def test_a_pipeline_with_options_in_a_secret_runs_and_its_bundle_explains_it_without_them(
    on_volume: Callable[..., Pipeline], cluster: Cluster, tmp_path: Path
) -> None:
    mails = on_volume("mails")
    secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": SECRET, "namespace": mails.namespace}}
    mails.kube.apply({**secret, "stringData": {"kafka.client.id": f"{VALUE}\n"}})
    mails.load(seed=7)
    applied = time.time()
    mails.kube.apply(mails.manifest({"source": {"kafka": {"secretRef": {"name": SECRET}}}}))
    mails.wait_for_commit(applied, "apply")
    mails.wait_for_condition("Ready", "True")

    (line,) = [
        line
        for line in bucketingest(cluster.kubeconfig, "top", "--once", "-n", mails.namespace).splitlines()
        if "mails" in line
    ]
    assert line.split()[0] == "mails"
    assert "True" in line.split()

    path = tmp_path / "bundle.tar.gz"
    bucketingest(cluster.kubeconfig, "diagnose", "mails", "-n", mails.namespace, "-o", str(path))
    files = unpacked(path)
    assert "missing.txt" not in files, files["missing.txt"]
    assert json.loads(files["progress.json"])["name"] == "mails"
    assert json.loads(files["timeline.json"])
    assert "AttemptStarting" in files["events.txt"]
    logs = [name for name in files if name.startswith("logs/")]
    assert any("driver" in name for name in logs)
    assert any("executor" in name for name in logs)
    assert VALUE not in "".join(files.values())

    assert ", 0 others" in bucketingest(cluster.kubeconfig, "diagnose", "--replay", str(path))

    the_commands_of_every_runbook_work_as_written(mails, tmp_path)

    # Commands in the job's container left no termination message: a driver that is killed now is started again.
    kill_first_process(mails.drivers()[-1])
    mails.wait_for_commit_of(2, "driver SIGKILL")
    mails.judge()


def the_commands_of_every_runbook_work_as_written(pipeline: Pipeline, folder: Path) -> None:
    """The API server only validates commands that change a resource (`--dry-run=server`)."""
    (folder / "bin").mkdir()
    (folder / "bin" / "kubectl").symlink_to(find_tool("kubectl"))
    environment = {
        **os.environ,
        "KUBECONFIG": str(pipeline.kube.kubeconfig),
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "NAMESPACE": pipeline.namespace,
        "NAME": pipeline.name,
    }
    pages: dict[str, str] = {}
    for page in sorted(RUNBOOKS.glob("*.md")):
        for line in lines_of(page.stem):
            if line.startswith("kubectl"):
                # Without `grep`, which fails if it finds nothing: then nothing is wrong.
                command = line.partition(" | ")[0].partition(" #")[0]
                pages.setdefault(f"{command} --dry-run=server" if _CHANGING.search(command) else command, page.name)
    typed = Shell(environment, pipeline.table_url).type(*pages)
    failed = [f"{pages[each.line]}: {each.line}\n{each.output}" for each in typed if each.code]
    assert not failed, "\n".join(failed)
