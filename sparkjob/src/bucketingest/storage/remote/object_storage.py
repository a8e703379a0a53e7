"""Storage on object stores through obstore: S3, Google Cloud Storage, Azure, and memory for tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

import obstore

from bucketingest.storage import limits
from bucketingest.storage.buffers import opened
from bucketingest.storage.errors import InvalidLocation, NotFound, ObjectTooLarge
from bucketingest.storage.interface import Data, Level, ObjectInfo, Version
from bucketingest.storage.limits import Use
from bucketingest.storage.locations import Location
from bucketingest.storage.paths import check_path, check_prefix
from bucketingest.storage.remote.conditional_put import ConditionalPut
from bucketingest.storage.remote.failures import OBSTORE_ERRORS, translated

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore


class ObjectStorage:
    """Objects below one prefix of a bucket, container or memory store.

    **Create-if-absent** is one conditional PUT (``If-None-Match: *`` on S3), never a multipart upload: obstore has no
    condition on those. A local file is mapped and sent from the map, so it does not fill memory; what the store takes
    in one PUT (5 GiB on S3) is the largest object.

    A replace is one PUT on condition of the version (``If-Match`` on S3). If the answer of a conditional PUT is lost,
    its token shows whether it succeeded: see `ConditionalPut`.
    """

    def __init__(self, location: Location) -> None:
        self._location = location
        self._url = location.url
        self._start = f"{location.prefix}/" if location.prefix else ""
        self._clients: dict[Use, ObjectStore] = {}

    def __reduce__(self) -> tuple[type[ObjectStorage], tuple[Location]]:
        return ObjectStorage, (self._location,)

    @property
    def url(self) -> str:
        """The root URL, as given, without a trailing slash."""
        return self._url

    def __repr__(self) -> str:
        return f"ObjectStorage({self._url!r})"

    def get(self, path: str) -> bytes:
        """The whole content. Raises NotFound."""
        key = self._key(path)
        try:
            return obstore.get(self._client(Use.READ), key).bytes().to_bytes()
        except OBSTORE_ERRORS as error:
            self._fail("get", path, error)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Up to ``length`` bytes from byte ``start``. Raises NotFound."""
        key = self._key(path)
        if start < 0 or length < 0:
            raise InvalidLocation(
                f"{self._where(path)}: a range must not be negative, is start {start}, length {length}"
            )
        if length == 0:  # Stores answer an empty range with an error.
            return b""
        try:
            return obstore.get_range(self._client(Use.READ), key, start=start, length=length).to_bytes()
        except OBSTORE_ERRORS as error:
            if not isinstance(error, FileNotFoundError) and start >= self.head(path).size:
                return b""  # Stores answer a range behind the end with an error.
            self._fail("get", path, error)

    def head(self, path: str) -> ObjectInfo:
        """Size and times of one object. Raises NotFound."""
        key = self._key(path)
        try:
            return self._info(obstore.head(self._client(Use.QUICK), key))
        except OBSTORE_ERRORS as error:
            self._fail("head", path, error)

    def exists(self, path: str) -> bool:
        """Whether the object is there."""
        try:
            self.head(path)
        except NotFound:
            return False
        return True

    def create(self, path: str, data: Data) -> None:
        """Create the object only if the name is free. Raises AlreadyExists, ObjectTooLarge."""
        self._key(path)
        with opened(data) as buffers:
            self._conditional(path, buffers).create(_payload(buffers))

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        """The whole content and its version. Raises NotFound."""
        key = self._key(path)
        try:
            result = obstore.get(self._client(Use.READ), key)
            version = Version(result.meta["e_tag"], result.meta["version"])
            return result.bytes().to_bytes(), version
        except OBSTORE_ERRORS as error:
            self._fail("get", path, error)

    def replace(self, path: str, data: Data, version: Version) -> Version:
        """Write the object only if it is still this version; the new version. Raises Changed, NotFound."""
        self._key(path)
        with opened(data) as buffers:
            return self._conditional(path, buffers).replace(_payload(buffers), version)

    def put(self, path: str, data: Data) -> None:
        """Write the object, replacing one that is there. Raises ObjectTooLarge."""
        key = self._key(path)
        with opened(data) as buffers:
            client = self._client(self._upload_use(path, buffers))
            try:
                obstore.put(client, key, _payload(buffers), mode="overwrite", use_multipart=False)
            except OBSTORE_ERRORS as error:
                self._fail("put", path, error)

    def delete(self, path: str) -> None:
        """Delete the object; success when it is absent."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete objects, in bulk requests where the store has them."""
        names = {self._key(path): path for path in paths}
        if not names:
            return
        try:
            obstore.delete(self._client(Use.QUICK), [*names])
        except OBSTORE_ERRORS as error:
            first = next(iter(names.values()))
            failure = translated(self._where(first), "delete", error, self._location.secrets)
            if not isinstance(failure, NotFound):
                raise failure from None
            if len(names) > 1:  # A store that reports an absent object may have stopped there.
                for path in names.values():
                    self.delete(path)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object below the directory, at any depth, page by page."""
        yield from self._list(check_prefix(self._url, prefix), None)

    def list_after(self, after: str) -> Iterator[ObjectInfo]:
        """As ``list``, from behind a key on."""
        yield from self._list("", self._start + after)

    def _list(self, directory: str, offset: str | None) -> Iterator[ObjectInfo]:
        try:
            for page in obstore.list(self._client(Use.QUICK), self._directory_key(directory), offset=offset):
                yield from map(self._info, page)
        except OBSTORE_ERRORS as error:
            self._fail("list", directory, error)

    def list_level(self, prefix: str = "") -> Level:
        """The directories and objects directly in the directory."""
        directory = check_prefix(self._url, prefix)
        try:
            result = obstore.list_with_delimiter(self._client(Use.QUICK), self._directory_key(directory))
        except OBSTORE_ERRORS as error:
            self._fail("list", directory, error)
        return Level(
            directories=[name.removeprefix(self._start).rstrip("/") for name in result["common_prefixes"]],
            objects=[self._info(meta) for meta in result["objects"]],
        )

    def absolute(self, path: str) -> str:
        """The root URL and the path."""
        return f"{self._url}/{check_path(self._url, path)}"

    def _where(self, path: str) -> str:
        return f"{self._url}/{path}"

    def _key(self, path: str) -> str:
        return self._start + check_path(self._url, path)

    def _directory_key(self, directory: str) -> str | None:
        return (self._start + directory).rstrip("/") or None

    def _info(self, meta: ObjectMeta) -> ObjectInfo:
        return ObjectInfo(meta["path"].removeprefix(self._start), meta["size"], meta["last_modified"], meta["e_tag"])

    def _client(self, use: Use) -> ObjectStore:
        client = self._clients.get(use)
        if client is None:  # Two threads may both connect; the later client replaces the earlier, both work.
            client = self._clients[use] = self._location.connect(use)
        return client

    def _upload_use(self, path: str, buffers: Sequence[memoryview]) -> Use:
        size, limit = sum(buffer.nbytes for buffer in buffers), self._location.object_bytes_max
        if limit is not None and size > limit:
            raise ObjectTooLarge(
                f"{self._where(path)}: {size} bytes exceed the {limit} that the store takes in one atomic"
                " request; write smaller files (more buckets, or a shorter commit interval)"
            )
        return Use.QUICK if size <= limits.QUICK_BYTES_MAX else Use.UPLOAD

    def _conditional(self, path: str, buffers: Sequence[memoryview]) -> ConditionalPut:
        return ConditionalPut(
            upload=self._client(self._upload_use(path, buffers)),
            quick=self._client(Use.QUICK),
            key=self._key(path),
            where=self._where(path),
            secrets=self._location.secrets,
            token=uuid.uuid4().hex,
        )

    def _fail(self, what: str, path: str, error: Exception) -> NoReturn:
        # The cause is cut off: obstore's text can hold signed requests and the store's echo of credentials.
        raise translated(self._where(path), what, error, self._location.secrets) from None


def _payload(buffers: Sequence[memoryview]) -> memoryview | bytes:
    return buffers[0] if len(buffers) == 1 else b"".join(buffers)
