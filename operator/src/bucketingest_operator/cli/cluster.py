"""Reads from a cluster with the user's kubeconfig and rights, with limits, and changes nothing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

import urllib3
from kubernetes import client, config, stream
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError
from websocket import WebSocketException

from bucketingest_operator.cli.errors import ClusterError, ContainerUnreachable, Denied, NotThere

Object = dict[str, Any]

_TIMEOUT: Final = urllib3.Timeout(connect=5, read=30)
_PAGE: Final = 500
_ERROR_CHARACTERS: Final = 300
_CHUNK_BYTES: Final = 64 * 1024


class Cluster:
    """An API server, with the user's credentials."""

    def __init__(self, configuration: Any, namespace: str) -> None:
        """Args: `configuration`: of the kubernetes client. `namespace`: the default namespace."""
        self.namespace = namespace
        self._configuration = configuration
        options: dict[str, Any] = {
            "cert_reqs": "CERT_REQUIRED" if configuration.verify_ssl else "CERT_NONE",
            "ca_certs": configuration.ssl_ca_cert,
            "cert_file": configuration.cert_file,
            "key_file": configuration.key_file,
        }
        if name := getattr(configuration, "tls_server_name", None):
            options["server_hostname"] = name
        proxy = configuration.proxy
        self._pool = urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)

    @classmethod
    def find(cls, context: str | None = None) -> Self:
        """The cluster of the kubeconfig (of one of its contexts), or the one that this process runs in.

        Raises ClusterError if there is neither.
        """
        configuration = client.Configuration()
        try:
            config.load_kube_config(context=context, client_configuration=configuration)  # type: ignore[no-untyped-call]
            contexts, current = config.list_kube_config_contexts()  # type: ignore[no-untyped-call]
            chosen = current if context is None else next(each for each in contexts if each["name"] == context)
            return cls(configuration, chosen["context"].get("namespace") or "default")
        except ConfigException as error:
            if context is not None:
                raise ClusterError(
                    f"the kubeconfig cannot be used: {error}; see kubectl config get-contexts"
                ) from error
            why = str(error)
        try:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except ConfigException:
            raise ClusterError(f"no cluster: {why}; set KUBECONFIG, or use --context") from None
        return cls(configuration, "default")

    def get(self, path: str, **parameters: str) -> Object:
        """One object, or a page of a list. Raises ClusterError, NotThere, Denied."""
        with self._answer(path, parameters) as answer:
            try:
                found = json.loads(answer.read())
            except ValueError as error:
                raise ClusterError(f"GET {path}: the answer is not JSON") from error
        assert isinstance(found, dict), "the API server answers with objects"
        return found

    def items(self, path: str, **parameters: str) -> list[Object]:
        """All objects of a list, in pages. Raises the same as `get`."""
        found: list[Object] = []
        following = ""
        while True:
            more = {"continue": following} if following else {}
            page = self.get(path, **{"limit": str(_PAGE), **parameters, **more})
            found += page.get("items") or []
            following = page.get("metadata", {}).get("continue") or ""
            if not following:
                return found

    def lines(self, path: str, bytes_max: int, **parameters: str) -> Iterator[str]:
        """The lines of a text such as a log, up to a number of bytes. Raises the same as `get`."""
        with self._answer(path, parameters) as answer:
            rest, read = b"", 0
            for chunk in answer.stream(_CHUNK_BYTES):
                read += len(chunk)
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
                if read >= bytes_max:
                    return
            if rest:
                yield rest.decode("utf-8", "replace")

    def run(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: list[str],
        *,
        seconds: float,
        bytes_max: int,
        good: Collection[int] = (0,),
    ) -> str:
        """The output of a command in a container. Raises ContainerUnreachable if it cannot be run, ClusterError if it
        ends with a code that is not `good`, or exceeds time or size.
        """
        api = client.CoreV1Api(client.ApiClient(self._configuration))
        try:
            running = stream.stream(
                api.connect_get_namespaced_pod_exec,
                pod,
                namespace,
                container=container,
                command=command,
                stderr=True,
                stdin=False,
                stdout=True,
                tty=False,
                binary=True,
                _preload_content=False,
            )
        except ApiException as error:
            raise ContainerUnreachable(f"no command can be run in {pod}: {why_refused(error)}") from error
        try:
            return _printed(running, f"{command[0]} in {pod}", time.monotonic() + seconds, bytes_max, good)
        except (OSError, WebSocketException) as error:
            raise ClusterError(f"the connection to {pod} was lost: {error}") from error
        finally:
            running.close()

    @contextmanager
    def _answer(self, path: str, parameters: Mapping[str, str]) -> Iterator[urllib3.BaseHTTPResponse]:
        headers = {"Accept": "application/json, */*"}
        for each in self._configuration.auth_settings().values():
            headers[each["key"]] = each["value"]
        url = self._configuration.host.rstrip("/") + path
        try:
            answer = self._pool.request(
                "GET", url, fields=parameters, headers=headers, timeout=_TIMEOUT, retries=1, preload_content=False
            )
            try:
                if answer.status >= 400:
                    raise _refusal(path, answer.status, answer.read(_CHUNK_BYTES))
                yield answer
            finally:
                answer.close()
        except HTTPError as error:
            reason = getattr(error, "reason", None) or error
            raise ClusterError(f"the API server {self._configuration.host} does not answer: {reason}") from error


def why_refused(error: ApiException) -> str:
    """Why the API server does not run a command, in one sentence. Its client gives the whole answer to a handshake as
    one text: status line, headers, and a Status object as JSON, which may be Python's text of bytes.
    """
    text = str(error.reason)
    found = re.search(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"', text)
    if found is not None:
        return re.sub(r'\\+"', '"', found[1])[:_ERROR_CHARACTERS]
    status = re.match(r"Handshake status (\d+ [A-Za-z ]*)", text)
    return f"the API server answered {status[1].strip()}" if status is not None else _first_line(text)


def _printed(running: Any, what: str, deadline: float, bytes_max: int, good: Collection[int] = (0,)) -> str:
    """Everything that a command prints on stdout. Raises ClusterError if it fails, or exceeds time or size."""
    output, errors = b"", b""
    open_still = True
    while open_still:
        running.update(timeout=1)
        open_still = running.is_open()
        output += running.read_stdout(timeout=0) if running.peek_stdout() else b""
        errors += running.read_stderr(timeout=0) if running.peek_stderr() else b""
        if time.monotonic() > deadline:
            raise ClusterError(f"{what} did not end in time")
        if len(output) > bytes_max:
            raise ClusterError(f"{what} printed more than {bytes_max} bytes")
    try:
        code = running.returncode
    except (TypeError, KeyError, ValueError):  # the stream ended without an exit code
        code = None
    if code not in good:
        said = _last_line(errors.decode("utf-8", "replace"))
        raise ClusterError(f"{what} failed{'' if code is None else f' with {code}'}: {said}")
    return output.decode("utf-8", "replace")


def _refusal(path: str, status: int, body: bytes) -> ClusterError:
    try:
        said = str(json.loads(body).get("message", ""))
    except (ValueError, AttributeError):
        said = body.decode("utf-8", "replace")
    message = f"GET {path}: {status}: {said[:_ERROR_CHARACTERS]}"
    kind = {404: NotThere, 401: Denied, 403: Denied}.get(status, ClusterError)
    return kind(message)


def _first_line(text: object) -> str:
    return (str(text).strip().splitlines() or [""])[0][:_ERROR_CHARACTERS]


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it printed nothing"])[-1][:_ERROR_CHARACTERS]
