"""What URLs and options mean, and that no secret ever shows."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest
from obstore.exceptions import GenericError
from obstore.store import AzureStore, GCSStore, S3Store

from bucketingest.storage import InvalidLocation, NotFound, PathRoom, StorageError, open_storage, path_room
from bucketingest.storage.limits import Use
from bucketingest.storage.locations import CloudLocation
from bucketingest.storage.remote.failures import Secrets, translated
from bucketingest.storage.remote.object_storage import ObjectStorage
from support.http_fake import FakeHandler, FakeServer
from support.storage.scripted_s3 import scripted_s3

SECRET = "wJalrXUtnFEMIsecret"
S3_OPTIONS = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": SECRET, "session_token": "TOKENEXAMPLE"}


def location(url: str, options: dict[str, str] | None = None) -> CloudLocation:
    storage = open_storage(url, options)
    assert isinstance(storage, ObjectStorage)
    assert isinstance(storage._location, CloudLocation)
    return storage._location


def s3_store(options: dict[str, str] | None = None, use: Use = Use.QUICK) -> S3Store:
    store = location("s3://lake/orders", options).connect(use)
    assert isinstance(store, S3Store)
    return store


@pytest.fixture(autouse=True)
def no_cloud_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "absolute", "bucket", "prefix"),
    [
        ("s3://lake/orders/", "s3://lake/orders/a b", "lake", "orders"),
        ("s3a://lake/o r/d%20e#1", "s3a://lake/o r/d%20e#1/a b", "lake", "o r/d%20e#1"),
        ("s3://lake", "s3://lake/a b", "lake", ""),
        ("gs://lake/orders", "gs://lake/orders/a b", "lake", "orders"),
        ("az://lake/orders", "az://lake/orders/a b", "lake", "orders"),
        (
            "abfss://lake@acct.dfs.core.windows.net/orders",
            "abfss://lake@acct.dfs.core.windows.net/orders/a b",
            "lake",
            "orders",
        ),
    ],
)
def test_a_url_names_bucket_and_root_and_is_kept_as_written(url: str, absolute: str, bucket: str, prefix: str) -> None:
    storage = open_storage(url)
    assert storage.absolute("a b") == absolute
    found = location(url)
    assert (found.bucket, found.prefix) == (bucket, prefix)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "empty"),
        ("hdfs://host/x", "hdfs://"),
        ("s3:///orders", "names no bucket"),
        ("s3://lake/a//b", "empty segment"),
        ("s3://lake/../b", "'..'"),
        ("abfss://lake@acct/orders", "container@account.dfs"),
        ("abfss://@acct.dfs.core.windows.net/orders", "container@account.dfs"),
        ("file://host/data", "three slashes"),
        ("memory://", "names no bucket"),
    ],
)
def test_a_url_that_cannot_work_is_refused_with_a_reason(url: str, says: str) -> None:
    with pytest.raises(InvalidLocation) as caught:
        open_storage(url)
    assert says in str(caught.value)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidLocation) as caught:
        open_storage(f"s3://AKIDEXAMPLE:{SECRET}@lake/orders")
    assert SECRET not in str(caught.value)
    assert "options" in str(caught.value)


def test_s3_options_reach_the_client_in_any_spelling() -> None:
    options = {"AWS_ENDPOINT": "http://127.0.0.1:1", "Region": "eu-west-1", "path_style": "true", **S3_OPTIONS}
    config = s3_store(options).config
    assert config["endpoint"] == "http://127.0.0.1:1"
    assert config["region"] == "eu-west-1"
    assert config["access_key_id"] == "AKIDEXAMPLE"
    assert str(config["virtual_hosted_style_request"]).lower() == "false"


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_the_endpoint_comes_from_the_environment_when_no_option_names_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:2")
    assert s3_store(S3_OPTIONS).config["endpoint"] == "http://127.0.0.1:2"
    assert s3_store({**S3_OPTIONS, "endpoint": "http://127.0.0.1:3"}).config["endpoint"] == "http://127.0.0.1:3"


def test_credentials_and_endpoint_in_the_environment_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    with scripted_s3() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        assert not open_storage("s3://lake/orders").exists("a")
        assert "Credential=FROMENVIRONMENT/" in server.authorization
        assert "/eu-north-1/s3/" in server.authorization


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, "false"),
        ({"endpoint": "https://s3.example.com"}, "false"),
        ({"endpoint": "http://127.0.0.1:1"}, "true"),
        ({"endpoint": "http://127.0.0.1:1", "allow_http": "false"}, "false"),
        ({"endpoint": "https://s3.example.com", "allow_http": "true"}, "true"),
    ],
)
def test_plain_http_needs_to_be_asked_for_or_an_http_endpoint(options: dict[str, str], allowed: str) -> None:
    client = s3_store({**S3_OPTIONS, **options}).client_options
    assert client is not None
    assert str(client["allow_http"]).lower() == allowed


@pytest.mark.parametrize("use", list(Use))
def test_every_client_has_timeouts_and_bounded_retries(use: Use) -> None:
    store = s3_store(S3_OPTIONS, use)
    assert store.client_options is not None
    assert {"timeout", "connect_timeout"} <= set(store.client_options)
    assert store.retry_config is not None
    assert store.retry_config["max_retries"] == 6


def test_google_and_azure_clients_are_built() -> None:
    assert isinstance(location("gs://lake/orders", {"skip_signature": "true"}).connect(Use.QUICK), GCSStore)
    azure = location("abfss://lake@acct.dfs.core.windows.net/orders", {"account_key": "c2VjcmV0a2V5"})
    store = azure.connect(Use.READ)
    assert isinstance(store, AzureStore)
    assert store.config["account_name"] == "acct"


@pytest.mark.parametrize("url", ["s3://lake/orders", "gs://lake/orders", "abfss://lake@acct.dfs.core.windows.net/x"])
def test_an_unknown_option_is_named_with_the_url(url: str) -> None:
    storage = open_storage(url, {"no_such_option": "1"})
    with pytest.raises(InvalidLocation, match="no_such_option") as caught:
        storage.get("a")
    assert url in str(caught.value)


def test_azure_without_an_account_says_so() -> None:
    with pytest.raises(InvalidLocation, match="az://lake/orders"):
        open_storage("az://lake/orders").get("a")


def test_no_secret_shows_in_a_repr_an_error_or_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    storage = open_storage("s3://lake/orders", {**S3_OPTIONS, "endpoint": f"ftp://{SECRET}@127.0.0.1:1"})
    shown = [repr(storage), str(storage), repr(location("s3://lake/orders", S3_OPTIONS)), repr(vars(storage))]
    try:
        storage.get("a")
    except StorageError as error:
        shown += [str(error), "".join(traceback.format_exception(error))]
    assert len(shown) == 6
    for text in [*shown, caplog.text]:
        assert SECRET not in text


def test_signed_urls_in_a_stores_answer_are_hidden() -> None:
    error = translated(
        "s3://lake/a", "get", ValueError(f"GET https://h/k?X-Amz-Signature=abcdef&x=1 with {SECRET}"), Secrets([SECRET])
    )
    assert "abcdef" not in str(error)
    assert SECRET not in str(error)
    assert "x=1" in str(error)


def test_a_pickled_storage_keeps_its_options() -> None:
    copy = pickle.loads(pickle.dumps(open_storage("s3://lake/orders", S3_OPTIONS)))
    assert copy.url == "s3://lake/orders"
    assert copy._location.connect(Use.QUICK).config["secret_access_key"] == SECRET


@pytest.mark.parametrize(
    ("url", "room"),
    [
        ("s3://lake", PathRoom(1024)),
        ("s3a://lake/a/b/", PathRoom(1024 - 4)),
        ("gs://lake/é", PathRoom(1024 - 3)),
        ("abfss://lake@account.dfs.core.windows.net/tables/orders", PathRoom(1024 - 14)),
        ("/data/orders", PathRoom(4095 - 13, 255)),
        ("file:///data/orders", PathRoom(4095 - 13, 255)),
        ("file:/data/orders", PathRoom(4095 - 13, 255)),
        ("memory://somewhere", PathRoom()),
    ],
)
def test_a_root_leaves_so_much_room_for_paths_below_it(url: str, room: PathRoom) -> None:
    assert path_room(url) == room


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Error performing PUT http://169.254.169.254/latest/api/token in 2s - HTTP error: error sending request", 6),
        ("Error performing GET http://169.254.170.2/x in 2s - Server returned non-2xx status code: 503 Busy", 6),
        ("Error performing PUT http://169.254.169.254/latest/api/token - non-2xx status code: 429 Slow down", 6),
        ("Error performing GET http://169.254.170.2/x in 2s - Server returned non-2xx status code: 403 Forbidden", 7),
        # at an address of their own, and that of EKS Pod Identity
        ("Error performing PUT http://10.0.0.1:80/latest/api/token in 2s - non-2xx status code: 503 Busy", 6),
        ("Error performing PUT http://10.0.0.1:80/latest/api/token in 2s - HTTP error: error sending request", 6),
        ("Error performing PUT http://10.0.0.1:80/latest/api/token in 2s - non-2xx status code: 403 Forbidden", 7),
        ("Error performing GET http://10.0.0.1/latest/meta-data/iam/security-credentials/ - status code: 404 No", 7),
        ("Error performing GET http://[fd00:ec2::23]/v1/credentials in 2s - HTTP error: error sending request", 6),
        ("missing credentials", 7),
        ("Error performing POST https://sts.eu-west-1.amazonaws.com/ in 1s - HTTP error: error sending request", 6),
        ("Error performing POST https://sts.local/ - status code: 400: <Code>IDPCommunicationError</Code>", 6),
        ("POST https://id.local/?Action=AssumeRole - status code: 400: <Code>InvalidIdentityToken</Code>", 7),
        ("Error performing POST https://login.microsoftonline.com/t/oauth2/v2.0/token - status code: 503", 6),
    ],
)
def test_a_service_for_credentials_that_is_away_is_an_outage_and_its_refusal_is_not(text: str, kind: int) -> None:
    error = translated("s3://lake/orders", "get", GenericError(text), Secrets())
    assert error.exit_code == kind
    assert kind == 7 or "does not answer" in str(error)


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Proxy(FakeHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.answer(404, b"")

    with FakeServer(Proxy) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        storage = open_storage(
            "s3://lake/orders", {**S3_OPTIONS, "endpoint": "http://s3.invalid", "allow_http": "true"}
        )
        with pytest.raises(NotFound):
            storage.get("x")
    assert asked == ["http://s3.invalid/lake/orders/x"]
