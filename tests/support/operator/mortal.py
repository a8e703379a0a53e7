"""An operator process that dies between any two of its writes: a test that passes with it needs no write twice."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

from support.operator.process import OperatorProcess
from support.operator.scene import Scene


class Mortal:
    """An operator that dies between any two of its writes, and is started again each time."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        where = ["--namespace", scene.namespace, "--leader-election-namespace", scene.namespace]
        module = "support.operator.dying"
        self._process = OperatorProcess(scene.kube.kubeconfig, folder / "mortal.log", *where, module=module)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live)
        self.deaths = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._process.runs:
            self._process.kill()

    def _live(self) -> None:
        self._process.start(wait=False)
        while not self._over.wait(0.02):
            if not self._process.runs:
                self.deaths += 1
                self._process.start(wait=False)
