"""The start of an attempt: resumed after an interruption, with a secret that nobody else knows."""

from __future__ import annotations

import base64
import json

import pytest

from bucketingest_operator.kube.api import AlreadyExists, ApiError, NotFound
from bucketingest_operator.kube.leaders_api import CreationRefused
from support.operator.observations import NAMES
from support.operator.recorded_actions import START, Acting, RecordingApi

THERE = AlreadyExists("POST: 409", code=409)


def test_an_attempt_whose_start_was_interrupted_is_resumed_with_its_configuration() -> None:
    api = RecordingApi(create_configmaps=[THERE], get_pods=NotFound("none", code=404))
    annotations = {"bucketingest.dev/rpc-part": "of-before"}
    name = NAMES.attempt(1)
    api.config_maps = [{"metadata": {"name": name, "uid": "uid-of-before", "annotations": annotations}}]
    Acting(api).act(START)
    (secret,) = [body for body in api.bodies if body and body.get("kind") == "Secret"]
    assert secret["metadata"]["name"] == NAMES.rpc_secret("of-before")
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "uid-of-before"
    (pod,) = [body for body in api.bodies if body and body.get("kind") == "Pod"]
    assert NAMES.rpc_secret("of-before") in str(pod["spec"]["volumes"])
    assert not [each for each in api.calls if each.startswith("delete configmaps")]


def test_a_secret_that_was_made_before_the_operator_ended_is_kept() -> None:
    api = RecordingApi(create_configmaps=[THERE], create_secrets=THERE, get_pods=NotFound("none", code=404))
    annotations = {"bucketingest.dev/rpc-part": "of-before"}
    api.config_maps = [{"metadata": {"name": NAMES.attempt(1), "uid": "u", "annotations": annotations}}]
    Acting(api).act(START)
    assert api.calls[-1] == f"create pods {NAMES.driver(1)}"


def test_a_configuration_that_names_no_secret_is_made_again_by_the_next_pass() -> None:
    api = RecordingApi(create_configmaps=[THERE], get_pods=NotFound("none", code=404))
    api.config_maps = [{"metadata": {"name": NAMES.attempt(1), "uid": "u"}}]
    acting = Acting(api)
    with pytest.raises(CreationRefused, match="rpc-part"):
        acting.act(START)
    assert f"delete configmaps {NAMES.attempt(1)}" in api.calls
    assert api.uids == ["u"], "another leader may have made it again"
    acting.act(START)
    assert api.calls[-1] == f"create pods {NAMES.driver(1)}"


def test_an_attempt_whose_driver_exists_keeps_its_configuration_and_its_secret() -> None:
    api = RecordingApi(create_configmaps=THERE)
    acting = Acting(api)
    acting.act(START)
    assert api.calls[-1] == f"get pods {NAMES.driver(1)}"
    assert not [each for each in api.calls if each.startswith(("create secrets", "delete"))]
    assert acting.counted == [("StartAttempt", "done")]


def test_a_secret_that_another_client_made_is_never_used() -> None:
    api = RecordingApi(create_secrets=[THERE])
    acting = Acting(api)
    with pytest.raises(CreationRefused) as caught:
        acting.act(START)
    (made,) = [body["metadata"]["name"] for body in api.bodies if body and body["kind"] == "Secret"]
    assert caught.value.sentence.startswith(f"The Secret {made} exists, and the operator did not make it")
    assert not [each for each in api.calls if each.startswith("create pods")]
    assert f"delete configmaps {NAMES.attempt(1)}" in api.calls
    (uid,) = api.uids
    assert uid in {f"uid-{version}" for version in range(2, api.version + 1)}, "only the one that this pass made"
    acting.act(START)
    assert made not in api.calls[-1]
    assert {each for each in api.calls if each.startswith("create secrets")} > {f"create secrets {made}"}


def test_what_a_person_must_read_wins_over_other_failures_and_nothing_goes_on_behind() -> None:
    quota = ApiError("", code=403, sentence="exceeded quota")
    api = RecordingApi(create_configmaps=ApiError("", code=500, sentence="etcd is gone"), apply_serviceaccounts=quota)
    with pytest.raises(CreationRefused) as caught:
        Acting(api).act(START)
    assert "exceeded quota" in caught.value.sentence
    assert not [each for each in api.calls if "pods" in each or "secrets" in each]


def test_every_attempt_gets_a_secret_of_256_bits_that_no_other_has_and_that_is_in_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = set()
    for _ in range(2):
        api = RecordingApi()
        with caplog.at_level("DEBUG"):
            Acting(api).act(START)
        (secret,) = [body for body in api.bodies if body and body["kind"] == "Secret"]
        (value,) = [base64.b64decode(each).decode() for each in secret["data"].values()]
        assert len(bytes.fromhex(value)) == 32
        (owner,) = secret["metadata"]["ownerReferences"]
        # That of the answer: the configuration goes with the attempt, and the Secret with it.
        assert (owner["kind"], owner["name"], owner["uid"][:4]) == ("ConfigMap", NAMES.attempt(1), "uid-")
        others = [body for body in api.bodies if body is not secret]
        using = [body for body in others if secret["metadata"]["name"] in json.dumps(body)]
        assert [body["kind"] for body in using] == ["ConfigMap", "Pod"]
        assert value not in json.dumps(others)
        assert value not in caplog.text
        made |= {value, secret["metadata"]["name"]}
    assert len(made) == 4
