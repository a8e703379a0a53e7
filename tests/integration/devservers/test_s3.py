import urllib.error
import urllib.request
from datetime import timedelta
from typing import Any

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from devservers.s3 import S3Server

pytestmark = pytest.mark.s3


def open_bucket(server: S3Server, name: str) -> S3Store:
    options: Any = server.options()
    return S3Store.from_url(server.create_bucket(name), config=options, client_options={"allow_http": True})


def put_if_absent(store: S3Store, key: str, body: bytes) -> int:
    """The status of a plain HTTP PUT with `If-None-Match: *`: what the server says, not what a client makes of it."""
    url = obstore.sign(store, "PUT", key, timedelta(minutes=1))
    request = urllib.request.Request(url, data=body, method="PUT", headers={"If-None-Match": "*"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_second_put_of_an_absent_object_fails_and_changes_nothing(s3_server: S3Server) -> None:
    store = open_bucket(s3_server, "create-if-absent")

    assert put_if_absent(store, "folder/decision", b"commit") == 200
    assert put_if_absent(store, "folder/decision", b"abort") == 412
    assert bytes(obstore.get(store, "folder/decision").bytes()) == b"commit"


def test_an_object_store_client_sees_the_same_refusal(s3_server: S3Server) -> None:
    store = open_bucket(s3_server, "create-with-client")
    obstore.put(store, "decision", b"commit", mode="create")

    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "decision", b"abort", mode="create")


def test_names_with_spaces_and_signs_are_listed_as_they_were_put(s3_server: S3Server) -> None:
    store = open_bucket(s3_server, "names")
    keys = sorted(["dt=2026-01-01/.hidden_1.log", "a b/ü%20.parquet", ".hoodie/timeline/1.inflight"])
    for key in keys:
        obstore.put(store, key, b"1")

    listed = sorted(entry["path"] for batch in obstore.list(store) for entry in batch)

    assert listed == keys
