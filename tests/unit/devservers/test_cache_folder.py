"""What the Makefile brings into the cache folder has its version in its name, and stays as it is where it is there."""

import re
from pathlib import Path

import pytest

from devservers.locations import ENTRIES, PROJECT_ROOT

MAKEFILE = (PROJECT_ROOT / "Makefile").read_text()
DEFINITIONS = {
    "connectors": "sparkjob/connectors/pom.xml",
    "kafka-broker": "tools/jars/kafka-broker/pom.xml",
    "apicurio-registry": "tools/jars/apicurio-registry/pom.xml",
    "trino": "tools/jars/trino/pom.xml",
    "debezium": "tools/jars/debezium/pom.xml",
    "hudi-bundle": "tools/jars/hudi-spark-3.5/pom.xml",
    "spark-protobuf": "tools/jars/spark-protobuf-3.4/pom.xml",
    "kafka-spark-3.5": "tools/jars/kafka-spark-3.5/pom.xml",
    "versitygw": "tools/versitygw/go.mod",
}


@pytest.mark.parametrize("target", ENTRIES)
def test_no_checkout_builds_again_what_others_may_be_using(target: str) -> None:
    variable = re.escape(f"$({target.upper().replace('-', '_').replace('.', '_')})")
    (needs,) = re.findall(rf"^{variable}(?:/\.ready)?:(.*)$", MAKEFILE, re.MULTILINE)
    assert not needs.strip() or needs.strip().startswith("|")


@pytest.mark.parametrize(("target", "definition"), DEFINITIONS.items())
def test_another_version_is_another_entry(target: str, definition: str) -> None:
    version = re.search(r"-(\d[.\d]*\d)(?:\.jar)?$", ENTRIES[target]().name)
    assert version is not None
    wanted = re.escape(version[1])
    text = (PROJECT_ROOT / Path(definition)).read_text()
    assert re.search(rf"(<version>|versitygw v){wanted}\b", text)
