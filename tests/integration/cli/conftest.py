"""A pipeline that has not run yet."""

from pathlib import Path

import pytest

from support.jobs.files_pipeline import FilesPipeline


@pytest.fixture
def pipeline(tmp_path: Path) -> FilesPipeline:
    """Twelve input files and the BucketIngest that reads one per micro-batch."""
    result = FilesPipeline(tmp_path)
    result.write_input()
    result.describe()
    return result
