"""Verbs of the Kubernetes API on plain dictionaries: the kubernetes client's calls with time-outs and named errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Self

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import ConfigException

from bucketingest.errors import BucketIngestError
from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.kube.connection import find_configuration
from bucketingest_operator.kube.kinds import Kind

Object = dict[str, Any]
Page = tuple[list[Object], str]
"""Some objects of a list, and the list's version."""

CALL_SECONDS: Final = 5.0
"""Timeout of a call. A leader that has lost its lease has no open call any more when another one starts."""
LIST_SECONDS: Final = 60.0
_PAGE: Final = 50
"""Objects of a page: each may have 1.5 MB, and some of a tenant have."""
_NOT_ABOUT_CONTENT: Final = frozenset({401, 404, 408, 409, 410, 429})
_SENTENCE_MAX: Final = 2000
"""Characters of what the API server says: it repeats values that it refuses, and what webhooks say."""
_FAILURES: Final = (aiohttp.ClientError, TimeoutError, ValueError, OSError, ConfigException)
"""Of a call: no connection, no answer in time, no JSON, or credentials that cannot be renewed."""
FIELD_MANAGER: Final = "bucketingest-operator"
_APPLY: Final = "application/apply-patch+yaml"
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_METADATA_WATCH: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class ApiError(BucketIngestError):
    """The API server refused a call, or did not answer."""

    def __init__(
        self, message: str, *, code: int = 0, reason: str = "", causes: tuple[str, ...] = (), sentence: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.causes = causes
        self.sentence = sentence or message
        """What the API server says, in its own words."""

    @property
    def namespace_terminating(self) -> bool:
        """Whether nothing can be created because the namespace is being deleted."""
        return "NamespaceTerminating" in self.causes

    @property
    def refuses_the_content(self) -> bool:
        """Whether a rule of the cluster refuses an object: a quota, a security standard, a policy, a webhook."""
        if self.namespace_terminating or self.code in _NOT_ABOUT_CONTENT:
            return False
        return 400 <= self.code < 500 or "webhook" in self.sentence


class NotFound(ApiError):
    """There is no such object."""


class AlreadyExists(ApiError):
    """An object of this name exists."""


class Conflict(ApiError):
    """The object has changed since it was read."""


class Gone(ApiError):
    """The version from which to watch is too old."""


class Api:
    """Calls the API server. Use one instance, as an asynchronous context manager."""

    def __init__(self) -> None:
        self._client: Any = None
        self.calls = 0
        """Calls since the start, watches included."""

    async def __aenter__(self) -> Self:
        self._client = ApiClient(await find_configuration())
        self._client.user_agent = "bucketingest-operator"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        """One object. Raises NotFound."""
        return await self.call("GET", kind.path(namespace, name))

    async def create(self, kind: Kind, namespace: str | None, content: Object, *, dry_run: bool = False) -> Object:
        """Create an object, or only have it checked (`dry_run`). Raises AlreadyExists."""
        params = {"dryRun": "All"} if dry_run else None
        return await self.call("POST", kind.path(namespace), params=params, body=content)

    async def replace(self, kind: Kind, namespace: str, name: str, content: Object, part: str | None = None) -> Object:
        """Replace an object, or its part `status`, if the version is still that of the content. Raises Conflict."""
        return await self.call("PUT", kind.path(namespace, name, part), body=content)

    async def patch(self, kind: Kind, namespace: str, name: str, content: Object) -> Object:
        """Merge into an object. Raises Conflict if the content names another version."""
        return await self.call("PATCH", kind.path(namespace, name), body=content)

    async def apply(self, kind: Kind, namespace: str, name: str, content: Object) -> Object:
        """Create an object, or change what is different in it (server-side apply). Fields of others stay."""
        return await self.call(
            "PATCH",
            kind.path(namespace, name),
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=content,
            content_type=_APPLY,
        )

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "", grace: int | None = None) -> None:
        """Delete an object, then the objects that it owns. Raises NotFound also if its name has another UID now;
        UID "": whichever has the name. `grace`: seconds that its processes get to end; 0: do not wait for a node; None:
        as the object says.
        """
        options: Object = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self.call("DELETE", kind.path(namespace, name), body=options)
        except Conflict as error:
            if not uid:
                raise
            raise NotFound(str(error), code=error.code, reason=error.reason) from error

    async def delete_all(self, kind: Kind, namespace: str, labels: str) -> None:
        """Delete the objects that have these labels."""
        await self.call(
            "DELETE", kind.path(namespace), params={"labelSelector": labels}, body={"propagationPolicy": "Background"}
        )

    async def list(
        self, kind: Kind, namespace: str | None, labels: str = "", *, fields: str = ""
    ) -> tuple[list[Object], str]:
        """All objects with these labels and fields as they are now, and the list's version. From etcd.

        For few objects: of many, `pages` holds only some at a time.
        """
        found: list[Object] = []
        version = ""
        async for page, newest in self.pages(kind, namespace, labels, fields=fields):
            found += page
            version = newest
        return found, version

    async def pages(
        self, kind: Kind, namespace: str | None, labels: str = "", *, fields: str = ""
    ) -> AsyncIterator[Page]:
        """The same a part at a time: what the caller does not keep of one is gone before the next is read."""
        params = {"limit": str(_PAGE), "labelSelector": labels, "fieldSelector": fields}
        params = {name: value for name, value in params.items() if value}
        while True:
            accept = _METADATA_ONLY if kind.metadata_only else None
            page = await self.call("GET", kind.path(namespace), params=params, accept=accept, seconds=LIST_SECONDS)
            metadata = page.get("metadata") or {}
            yield page.pop("items", None) or [], str(metadata.get("resourceVersion", ""))
            if not metadata.get("continue"):
                return
            params = {**params, "continue": metadata["continue"]}

    async def watch(
        self, kind: Kind, namespace: str | None, labels: str, since: str, seconds: float
    ) -> AsyncIterator[tuple[str, Object]]:
        """Changes since a version, as (ADDED, MODIFIED, DELETED or BOOKMARK, object), for at most `seconds`.
        Raises Gone if the version is too old, ApiError if the stream broke.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(int(seconds)),
            **({"labelSelector": labels} if labels else {}),
        }
        # API servers send bookmarks every minute: a stream that is silent for longer is dead.
        timeout = aiohttp.ClientTimeout(total=seconds + 30, sock_connect=CALL_SECONDS, sock_read=90)
        accept = _METADATA_WATCH if kind.metadata_only else None
        try:
            async with await self._send(
                "GET", kind.path(namespace), params=params, body=None, accept=accept, within=timeout
            ) as answer:
                await self._check(answer, "GET", kind.path(namespace))
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            raise _error("watch", event["object"].get("code", 0), event["object"])
                        yield event["type"], event["object"]
        except _FAILURES as error:
            raise ApiError(f"Watching {kind.plural} failed: {_words(error)}.") from error

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Object | None = None,
        accept: str | None = None,
        content_type: str | None = None,
        seconds: float = CALL_SECONDS,
    ) -> Object:
        """Any call. Raises ApiError or a subclass."""
        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            async with await self._send(
                method, path, params=params, body=body, accept=accept, within=timeout, content_type=content_type
            ) as answer:
                await self._check(answer, method, path)
                return json.loads(await answer.read())
        except _FAILURES as error:
            raise ApiError(f"{method} {path}: the API server does not answer: {_words(error)}.") from error

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None,
        body: Object | None,
        accept: str | None,
        within: aiohttp.ClientTimeout,
        content_type: str | None = None,
    ) -> aiohttp.ClientResponse:
        assert self._client is not None, "use the client within `async with`"
        self.calls += 1
        headers = {"Accept": accept or "application/json"}
        if body is not None:
            merges = "application/merge-patch+json" if method == "PATCH" else "application/json"
            headers["Content-Type"] = content_type or merges
        call = await self._client.param_serialize(
            method, path, query_params=params, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        answer = await self._client.call_api(*call, _request_timeout=within)
        response: aiohttp.ClientResponse = answer.response
        return response

    async def _check(self, answer: aiohttp.ClientResponse, method: str, path: str) -> None:
        if answer.status < 400:
            return
        text = await answer.text()
        try:
            status = json.loads(text)
        except ValueError:
            status = {"message": text[:200]}
        raise _error(f"{method} {path}", answer.status, status if isinstance(status, dict) else {})


def _error(what: str, code: int, status: Object) -> ApiError:
    details = status.get("details") or {}
    causes = tuple(str(each.get("reason", "")) for each in details.get("causes") or ())
    reason = str(status.get("reason", ""))
    sentence = plain(str(status.get("message", ""))[:_SENTENCE_MAX])
    message = f"{what}: {code} {reason}: {sentence}"
    kind: type[ApiError] = {404: NotFound, 409: Conflict, 410: Gone}.get(code, ApiError)
    if reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(message, code=code, reason=reason, causes=causes, sentence=sentence)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
