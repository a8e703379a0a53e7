"""The decision log: observation and plan as JSON, so that `diagnose --replay` can repeat a decision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, get_args

from pydantic import TypeAdapter

from bucketingest.redaction import Redactor, secrets_in
from bucketingest.spec.errors import Problem, SpecError
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.reading.load import parse_object
from bucketingest.spec.status import Status
from bucketingest_operator.decide.plan import (
    Action,
    Plan,
)
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import audit_digest, digest
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.observation import Observation

EVENT: Final = "decision"
"""The `event` of the log line of a pass whose plan acts; with `namespace`, `name`, `observation` and `plan`."""

LOGGED_MAX: Final = 100_000
"""Bytes of an observation that are logged: a spec of megabytes would fill the log with each decision."""
_OBSERVATION: Final = TypeAdapter(Observation)
_ACTIONS: Final[dict[str, TypeAdapter[Any]]] = {kind.__name__: TypeAdapter(kind) for kind in get_args(Action)}


def record(seen: Observation, plan: Plan) -> dict[str, Any]:
    """Observation and plan for the log. An observation that is too large is left out, and its field says so."""
    size = len(_OBSERVATION.dump_json(seen, by_alias=True))
    if size > LOGGED_MAX:
        return {"observation": f"left out: it has {size} bytes", "plan": encode_plan(plan)}
    shown = without_secrets(seen)
    # The decision for a spec without its secrets: the same, except for the digest of the spec.
    return {
        "observation": _encode_observation(shown),
        "plan": encode_plan(plan if shown is seen else reconcile(shown)),
    }


def encode_observation(seen: Observation) -> dict[str, Any]:
    """The observation as JSON values, without secrets. `reconcile` decides the same from it."""
    return _encode_observation(without_secrets(seen))


def _encode_observation(shown: Observation) -> dict[str, Any]:
    content: dict[str, Any] = _OBSERVATION.dump_python(shown, mode="json", by_alias=True)
    return content


def decode_observation(content: Mapping[str, Any]) -> Observation:
    """The observation of JSON values. Raises pydantic's ValidationError if they are not an observation."""
    return _OBSERVATION.validate_json(json.dumps(content))


def encode_plan(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values, each action with its name. The spec is left out: the observation has it."""
    return {
        "actions": [_encode(action) for action in plan.actions],
        "status": plan.status.to_document(),
        "lookAgainSeconds": plan.look_again.total_seconds(),
    }


def _encode(action: Action) -> dict[str, Any]:
    name = type(action).__name__
    content = _ACTIONS[name].dump_python(action, mode="json", by_alias=True, exclude={"wanted"})
    return {"action": name, **content}


def without_secrets(seen: Observation) -> Observation:
    """The observation with the secrets of the specs hidden: they do not belong there, but some users write them there.

    Each digest of a spec becomes that of the spec without secrets, so that an equal spec stays equal.
    """
    wanted, good = seen.resource.wanted, seen.last_good
    hidden = None if wanted is None else _hidden(wanted)
    hidden_good = good if good is None or (good == wanted and hidden is wanted) else _hidden(good)
    if hidden is wanted and hidden_good is good:
        return seen
    resource = replace(seen.resource, wanted=hidden)
    if wanted is not None and hidden is None:
        problem = Problem("spec", "holds secrets that cannot be hidden one by one")
        resource = replace(resource, problems=(*resource.problems, problem))
    pairs = ((wanted, hidden), (good, hidden_good))
    after = {digest(one): digest(other) for one, other in pairs if one is not None and other is not None}
    inputs = {
        number: replace(each, spec_digest=after.get(each.spec_digest, each.spec_digest))
        for number, each in seen.inputs.items()
    }
    resource = replace(resource, status=_exchanged(resource.status, after))
    after |= {audit_digest(one): audit_digest(other) for one, other in pairs if one is not None and other is not None}
    return replace(_with_checks_renamed(seen, after), resource=resource, inputs=inputs, last_good=hidden_good)


def _with_checks_renamed(seen: Observation, after: Mapping[str, str]) -> Observation:
    """The observation with other digests of checks of specs, and the names that follow from them."""
    names = Names(seen.resource.name, seen.resource.uid)
    renamed = {names.preflight(one): names.preflight(other) for one, other in after.items()}
    preflights = tuple(
        replace(each, digest=after.get(each.digest, each.digest), name=renamed.get(each.name, each.name))
        for each in seen.preflights
    )
    refusals = tuple(replace(each, job=renamed.get(each.job, each.job)) for each in seen.refusals)
    audits = tuple(replace(each, digest=after.get(each.digest, each.digest)) for each in seen.audits)
    return replace(seen, preflights=preflights, audits=audits, refusals=refusals)


def _exchanged(status: Status, after: Mapping[str, str]) -> Status:
    """The status with other digests."""
    upgrade = status.upgrade
    if upgrade is None:
        return status
    trial = upgrade.trial
    if trial is not None:
        trial = trial.model_copy(update={"digest": after.get(trial.digest, trial.digest)})
    preflight = upgrade.preflight
    if preflight is not None:
        preflight = preflight.model_copy(update={"digest": after.get(preflight.digest, preflight.digest)})
    digest_after = after.get(upgrade.digest, upgrade.digest)
    changed = {"digest": digest_after, "trial": trial, "preflight": preflight}
    return status.model_copy(update={"upgrade": upgrade.model_copy(update=changed)})


def _hidden(wanted: BucketIngest) -> BucketIngest | None:
    """The spec without secrets: itself if it has none, None if it cannot be written without them."""
    document = wanted.to_document(defaults=False)
    redact = Redactor(secrets_in(*_text_maps(document["spec"])))
    spec = _each_text(document["spec"], redact)
    if spec == document["spec"]:
        return wanted
    try:
        return parse_object({**document, "spec": spec})
    except SpecError:
        return None


def _text_maps(content: Any) -> list[dict[str, str]]:
    """Every mapping of names to texts in the document."""
    if isinstance(content, list):
        return [found for each in content for found in _text_maps(each)]
    if not isinstance(content, dict):
        return []
    texts = {name: value for name, value in content.items() if isinstance(value, str)}
    return [texts, *(found for each in content.values() for found in _text_maps(each))]


def _each_text(content: Any, redact: Redactor) -> Any:
    if isinstance(content, str):
        return redact(content)
    if isinstance(content, list):
        return [_each_text(each, redact) for each in content]
    if isinstance(content, dict):
        return {name: _each_text(value, redact) for name, value in content.items()}
    return content
