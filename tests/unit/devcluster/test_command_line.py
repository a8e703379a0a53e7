"""Which images are built is said by name, or not at all."""

from __future__ import annotations

import pytest

from devcluster import __main__ as command_line
from devcluster.images.project import TARGETS, Image


class Recorder:
    """Builds nothing and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def build(self, target: str) -> Image:
        self.asked.append(target)
        return Image(target, "1")


@pytest.mark.parametrize(("words", "built"), [([], list(TARGETS)), (["operator"], ["operator"])])
def test_without_names_both_images_are_built(
    words: list[str], built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(command_line, "builder", lambda: recorder)
    assert command_line.main(["build-image", *words]) == 0
    assert recorder.asked == built


def test_another_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["build-image", "nope"])
    assert "'nope' is not a target: job, operator" in capsys.readouterr().err
