"""Starts an attempt: creates what its driver needs, the driver last, and resumes what another operator has started."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress

from bucketingest_operator.kube.api import AlreadyExists, NotFound, Object
from bucketingest_operator.kube.kinds import CONFIG_MAPS, NETWORK_POLICIES, PODS
from bucketingest_operator.kube.leaders_api import CreationRefused, LeadersApi, create, create_all, together
from bucketingest_operator.manifests.attempt_objects import ATTEMPT_LABEL, RPC_PART, UID_LABEL, Manifests
from bucketingest_operator.manifests.spark_ports import SECRET_BYTES, SECRET_NAME_BYTES
from bucketingest_operator.observation import AttemptInput


async def start_attempt(
    api: LeadersApi,
    made_with: Callable[[str], Manifests],
    number: int,
    attempt_input: AttemptInput,
    ended: tuple[str, ...] = (),
) -> None:
    """Create the objects of an attempt. As long as there is no driver, this can be repeated: each time it gets further.

    `made_with`: makes the objects, from the random part of the name of the attempt's Secret. `ended`: earlier driver
    pods whose processes have ended. Raises CreationRefused if a rule of the cluster refuses an object, or another
    writer has made it; ApiError: those after it were not tried; NotLeader.
    """
    made = made_with(secrets.token_hex(SECRET_NAME_BYTES))
    # What nothing else here needs comes at the same time: a busy API server answers each call late.
    (kept, is_new), *_ = await together(
        _config_map(api, made, number, attempt_input),
        _network_policy(api, made),
        *(create_all(api, [each]) for each in (*made.identity(), made.role())),
    )
    if not is_new:
        if await _exists(api, made, number):
            return
        # An earlier pass got no further, or no answer. Its ConfigMap names a Secret that may not exist yet.
        kept = await _kept_config_map(api, made, number)
        made = made_with(kept["metadata"]["annotations"][RPC_PART])
    secret = made.rpc_secret(secrets.token_hex(SECRET_BYTES), kept)
    await together(
        _create_secret(api, secret, kept) if is_new else create_all(api, [secret]),
        create_all(api, [made.role_binding()]),  # the API server looks for the role that it names
    )
    await create_all(api, [made.driver_pod(number, attempt_input, ended)])


async def _config_map(
    api: LeadersApi, made: Manifests, number: int, attempt_input: AttemptInput
) -> tuple[Object, bool]:
    """The attempt's ConfigMap, and whether it was made now."""
    wanted = made.config_map(number, attempt_input)
    try:
        return await create(api, wanted), True
    except AlreadyExists:
        return wanted, False


async def _network_policy(api: LeadersApi, made: Manifests) -> None:
    if made.settings.network_policy.enabled:
        await create_all(api, [made.network_policy()])
        return
    with suppress(NotFound):
        await api.delete(NETWORK_POLICIES, made.namespace, made.names.base)


async def _exists(api: LeadersApi, made: Manifests, number: int) -> bool:
    try:
        await api.get(PODS, made.namespace, made.names.driver(number))
    except NotFound:
        return False
    return True


async def _kept_config_map(api: LeadersApi, made: Manifests, number: int) -> Object:
    """An attempt's ConfigMap without its content. Raises CreationRefused for one that names no Secret: it is deleted
    first, and the next pass makes another.
    """
    name = made.names.attempt(number)
    found, _ = await api.list(CONFIG_MAPS, made.namespace, f"{UID_LABEL}={made.uid},{ATTEMPT_LABEL}={number}")
    for each in found:
        if each["metadata"]["name"] != name:
            continue
        if RPC_PART in (each["metadata"].get("annotations") or {}):
            return each
        with suppress(NotFound):
            await api.delete(CONFIG_MAPS, made.namespace, name, uid=each["metadata"]["uid"])
    sentence = f"The ConfigMap {name} names no Secret: it is made again."
    raise CreationRefused(f"{made.namespace}/{name} has no {RPC_PART}", code=409, sentence=sentence)


async def _create_secret(api: LeadersApi, secret: Object, config_map: Object) -> None:
    """A Secret that another writer made is not used: that writer knows its content. Its ConfigMap is
    deleted: the next pass must not take the Secret for one that was made before the operator ended.
    """
    try:
        await create(api, secret)
    except AlreadyExists as error:
        name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
        with suppress(NotFound):
            await api.delete(CONFIG_MAPS, namespace, config_map["metadata"]["name"], uid=config_map["metadata"]["uid"])
        sentence = f"The Secret {name} exists, and the operator did not make it: the next try has another name."
        raise CreationRefused(str(error), code=error.code, sentence=sentence) from error
