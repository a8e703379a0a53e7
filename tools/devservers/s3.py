"""A real S3 API on 127.0.0.1 for tests and demos: versitygw, which keeps each bucket as a folder."""

import shutil
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from typing_extensions import override

from devservers.certificates import Authority
from devservers.locations import require
from devservers.process import Server, ServerProcess, free_ports

START_TIMEOUT_S = 30.0
HEALTH_PATH = "/health"


class S3Server(Server):
    """One S3 server with one account, and those that are added. A context manager; or call `start` and `stop`."""

    region = "us-east-1"
    access_key = "devserver-access"
    secret_key = "devserver-secret"  # noqa: S105 - a server of a test, reachable from this machine only

    def __init__(
        self, folder: Path | None = None, *, host: str = "127.0.0.1", authority: Authority | None = None
    ) -> None:
        """Keep data and log in `folder` and leave it behind; by default in a temporary one that `stop` removes.

        `authority`: it signs the server's certificate; None: without TLS.
        """
        self._authority = authority
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="bucketingest-s3-"))
        self._host = host
        self._port = free_ports(1, host=host)[0]
        self._process: ServerProcess | None = None

    @property
    def endpoint(self) -> str:
        """`http://host:port`, or `https`."""
        return f"http{'' if self._authority is None else 's'}://{self._host}:{self._port}"

    @property
    def log(self) -> Path:
        """What the server writes to stdout and stderr: its requests."""
        return self.folder / "versitygw.log"

    @property
    def environment(self) -> dict[str, str]:
        """What programs that read the environment have to know."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": "true",
        }

    @override
    def start(self) -> Self:
        """Start and wait until it answers.

        Raises:
            MissingDependencyError: the server is not built yet.
            ServerError: it did not come up.
        """
        buckets, metadata, accounts = (self.folder / name for name in ("buckets", "metadata", "accounts"))
        for each in (buckets, metadata, accounts):
            each.mkdir(parents=True, exist_ok=True)
        identity: list[str] = []
        if self._authority is not None:
            made = self._authority.issue("s3", self._host)
            files = {"--cert": self.folder / "tls.crt", "--key": self.folder / "tls.key"}
            for (option, file), text in zip(files.items(), (made.certificate, made.key), strict=True):
                file.write_text(text)
                identity += [option, str(file)]
        self._process = ServerProcess(
            "versitygw",
            [
                str(require("versitygw")),
                *("--port", f"{self._host}:{self._port}", "--region", self.region, "--health", HEALTH_PATH),
                *("--iam-dir", str(accounts)),
                *identity,
                # not all file systems have extended attributes (tmpfs): attributes of objects go beside the data
                *("posix", "--sidecar", str(metadata), str(buckets)),
            ],
            log=self.log,
            environment={"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key},
        )
        self._process.wait_until(self._answers, timeout_s=START_TIMEOUT_S)
        return self

    @override
    def stop(self) -> None:
        """End the server; its data goes too unless a folder was given."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def create_bucket(self, name: str) -> str:
        """Make an empty bucket and return its URL, `s3://name`. A folder of that name is a bucket for versitygw."""
        (self.folder / "buckets" / name).mkdir()
        return f"s3://{name}"

    def add_account(self, access_key: str, secret_key: str) -> None:
        """Further keys with every right, until `remove_account`."""
        self._administer("create-user", "--access", access_key, "--secret", secret_key, "--role", "admin")

    def remove_account(self, access_key: str) -> None:
        """From now on requests with these keys are denied."""
        self._administer("delete-user", "--access", access_key)

    def _administer(self, *arguments: str) -> None:
        who = ["--access", self.access_key, "--secret", self.secret_key, "--endpoint-url", self.endpoint]
        subprocess.run([str(require("versitygw")), "admin", *who, *arguments], check=True, timeout=START_TIMEOUT_S)

    def options(self) -> dict[str, str]:
        """What an S3 client has to know, under the names that obstore and `bucketingest.storage` use."""
        return {
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "endpoint": self.endpoint,
            "region": self.region,
        }

    def _answers(self) -> bool:
        trusted = None if self._authority is None else ssl.create_default_context(cafile=self._authority.file)
        try:
            with urllib.request.urlopen(self.endpoint + HEALTH_PATH, timeout=1, context=trusted) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False
