"""A look into what `make release` makes."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from devservers.locations import PROJECT_ROOT, require
from release.versions import version


@pytest.fixture(scope="module")
def release() -> Path:
    subprocess.run(["make", "--no-print-directory", "release"], cwd=PROJECT_ROOT, check=True)
    return PROJECT_ROOT / "build" / "release"


def test_it_is_whole_and_its_checksums_are_right(release: Path) -> None:
    number = version()
    wanted = {
        f"bucketingest-{number}-py3-none-any.whl",
        f"bucketingest_operator-{number}-py3-none-any.whl",
        f"bucketingest-{number}.tgz",
        f"bucketingest-{number}-chart.oci.tar",
        "bucketingest-job.python.cdx.json",
        "bucketingest-job.java.cdx.json",
        "bucketingest-operator.python.cdx.json",
    }
    assert {file.name for file in release.iterdir()} == wanted | {"SHA256SUMS"}
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=release, capture_output=True, text=True, check=True
    )
    assert checked.stdout.count(": OK\n") == len(wanted)


@pytest.mark.parametrize(
    ("wheel", "module", "command"),
    [
        ("bucketingest", "bucketingest/write/open_table.py", "bucketingest"),
        ("bucketingest_operator", "bucketingest_operator/main.py", "bucketingest-operator"),
    ],
)
def test_a_wheel_has_code_commands_and_licence(release: Path, wheel: str, module: str, command: str) -> None:
    with zipfile.ZipFile(release / f"{wheel}-{version()}-py3-none-any.whl") as file:
        about = f"{wheel}-{version()}.dist-info"
        names = set(file.namelist())
        assert {module, f"{wheel}/py.typed", f"{about}/licenses/LICENSE", f"{about}/licenses/NOTICE"} <= names
        assert f"{command} = " in file.read(f"{about}/entry_points.txt").decode()
        assert all(name.startswith((f"{wheel}/", f"{about}/")) for name in names)


def test_the_chart_is_the_same_as_an_artifact_of_a_registry(release: Path) -> None:
    chart = (release / f"bucketingest-{version()}.tgz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(chart)) as file:
        inside = file.extractfile("bucketingest/Chart.yaml")
        assert inside is not None
        about = yaml.safe_load(inside)
    assert (about["version"], about["appVersion"]) == (version(), version())
    with tarfile.open(release / f"bucketingest-{version()}-chart.oci.tar") as file:
        contents = {member.name: file.extractfile(member).read() for member in file}  # type: ignore[union-attr]
    for name, content in contents.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]

    def blob(descriptor: dict[str, Any]) -> bytes:
        content = contents[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert len(content) == descriptor["size"]
        return content

    [entry] = json.loads(contents["index.json"])["manifests"]
    manifest = json.loads(blob(entry))
    assert json.loads(blob(manifest["config"])) == about
    [layer] = manifest["layers"]
    assert blob(layer) == chart


@pytest.mark.parametrize("image", ["job", "operator"])
def test_a_bill_of_materials_names_every_python_package_of_an_image(release: Path, image: str) -> None:
    locked = (PROJECT_ROOT / "requirements" / f"{image}.txt").read_text()
    bill = json.loads((release / f"bucketingest-{image}.python.cdx.json").read_text())
    named = {(component["name"], component["version"]) for component in bill["components"]}
    assert named == set(re.findall(r"(?m)^([\w.-]+)==([^ ;\\]+)", locked))
    assert bill["metadata"]["component"]["version"] == version()


def test_a_bill_of_materials_names_every_jar_of_the_job(release: Path) -> None:
    bill = json.loads((release / "bucketingest-job.java.cdx.json").read_text())
    named = {f"{component['name']}-{component['version']}.jar" for component in bill["components"]}
    assert named == {file.name for file in require("connectors").glob("*.jar")}
    assert all(component["hashes"] for component in bill["components"])
