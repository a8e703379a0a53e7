from pathlib import Path

import pytest

from bucketingest.spec.reading.load import load_file, load_text

FOLDER = Path(__file__).parents[3] / "examples"
EXAMPLES = sorted([*FOLDER.glob("*.yaml"), *FOLDER.glob("cluster/kafka-*.yaml")])


def test_there_is_an_example_for_each_source() -> None:
    sources = {name for path in EXAMPLES for name in load_file(path).spec.source.to_document()}
    assert sources == {"kafka", "files", "rate"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_right_and_reads_back_equal(path: Path) -> None:
    resource = load_file(path)
    assert load_text(resource.to_yaml()) == resource
