"""A real Prometheus on 127.0.0.1 that scrapes every second, so that tests ask it what a dashboard would."""

import json
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from typing_extensions import override

from devservers.locations import require
from devservers.process import Server, ServerProcess, free_ports

START_TIMEOUT_S = 30.0


class Prometheus(Server):
    """One server with rule files, and with targets (`host:port`) that may change. Use it as a context manager."""

    def __init__(
        self,
        targets: Sequence[str],
        rules: Sequence[Path] = (),
        *,
        jobs: Sequence[dict[str, Any]] = (),
        host: str = "127.0.0.1",
    ) -> None:
        """`jobs`: more scrape configurations, in the words of Prometheus."""
        self._folder = Path(tempfile.mkdtemp(prefix="bucketingest-prometheus-"))
        self._address = f"{host}:{free_ports(1, host=host)[0]}"
        self._process: ServerProcess | None = None
        self._targets_file = self._folder / "targets.json"
        self._targets: list[str] | None = None
        self.scrape(targets)
        # JSON is YAML too.
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                # namespace and name are those that a target tells, as the chart's PodMonitor has it
                {
                    "job_name": "bucketingest-operator",  # by this name the rules know the operator
                    "honor_labels": True,
                    "file_sd_configs": [{"files": [str(self._targets_file)], "refresh_interval": "1s"}],
                },
                *jobs,
            ],
        }
        (self._folder / "prometheus.yml").write_text(json.dumps(configuration))

    @property
    def url(self) -> str:
        """`http://host:port`."""
        return f"http://{self._address}"

    def scrape(self, targets: Sequence[str]) -> None:
        """Scrape these from now on, and no others."""
        if sorted(targets) == self._targets:
            return
        self._targets = sorted(targets)
        partial = self._targets_file.with_suffix(".partial")
        partial.write_text(json.dumps([{"targets": self._targets}]))
        partial.rename(self._targets_file)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Samples of an instant query: `metric` (labels) and `value` (time, text).

        Raises urllib.error.HTTPError when the text is not an expression.
        """
        return self._api("query", query=expr)["result"]

    def query_range(self, expr: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Series of a range query, times in Unix seconds: `metric` (labels) and `values` (pairs of time and text)."""
        return self._api("query_range", query=expr, start=f"{start}", end=f"{end}", step=f"{step}")["result"]

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that are pending or firing: `labels`, `annotations`, `state`."""
        return self._api("alerts")["alerts"]

    @override
    def start(self) -> Self:
        """Start and wait until it is ready.

        Raises:
            MissingDependencyError: `make prometheus` was not run.
            ServerError: it did not come up.
        """
        self._process = ServerProcess(
            "prometheus",
            [
                str(require("prometheus") / "usr" / "bin" / "prometheus"),
                f"--config.file={self._folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address={self._address}",
            ],
            log=self._folder / "prometheus.log",
        )
        self._process.wait_until(self._is_ready, timeout_s=START_TIMEOUT_S)
        return self

    @override
    def stop(self) -> None:
        """End it; its data goes too."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _api(self, path: str, **parameters: str) -> dict[str, Any]:
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=10) as response:
            return json.load(response)["data"]

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False
