"""Starts an attempt: creates what its driver needs, the driver last, and resumes what another operator has begun."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress

from bucketingest_operator.kube.api import AlreadyExists, Api, NotFound, Object
from bucketingest_operator.kube.creation import CreationRefused, create, create_all
from bucketingest_operator.kube.kinds import CONFIG_MAPS, NETWORK_POLICIES, PODS
from bucketingest_operator.manifests.attempt_objects import ATTEMPT_LABEL, RPC_PART, UID_LABEL, Manifests
from bucketingest_operator.manifests.protection import SECRET_BYTES, SECRET_NAME_BYTES
from bucketingest_operator.observation import AttemptInput


async def start_attempt(
    api: Api, made_with: Callable[[str], Manifests], number: int, attempt_input: AttemptInput
) -> None:
    """Create the objects of an attempt. As long as there is no driver, this can be repeated: each time it gets further.

    Args:
        api: The API server.
        made_with: Makes the objects, from the random part of the name of the attempt's Secret.
        number: Of the attempt.
        attempt_input: What the attempt is started with.

    Raises:
        CreationRefused: A rule of the cluster refuses an object, or somebody else has made it.
        ApiError: A creation failed; those after it were not tried.
    """
    made = made_with(secrets.token_hex(SECRET_NAME_BYTES))
    if made.settings.network_policy:
        await create_all(api, [made.network_policy()])
    else:
        with suppress(NotFound):
            await api.delete(NETWORK_POLICIES, made.namespace, made.names.base)
    await create_all(api, made.rights())
    value = secrets.token_hex(SECRET_BYTES)
    try:
        kept = await create(api, made.config_map(number, attempt_input))
    except AlreadyExists:
        if await _exists(api, made, number):
            return
        # An earlier pass got no further, or no answer. Its ConfigMap names a Secret that may not exist yet.
        kept = await _kept_config_map(api, made, number)
        made = made_with(kept["metadata"]["annotations"][RPC_PART])
        await create_all(api, [made.rpc_secret(value, kept)])
    else:
        await _create_secret(api, made.rpc_secret(value, kept), kept)
    await create_all(api, made.driver(number, attempt_input))


async def _exists(api: Api, made: Manifests, number: int) -> bool:
    try:
        await api.get(PODS, made.namespace, made.names.driver(number))
    except NotFound:
        return False
    return True


async def _kept_config_map(api: Api, made: Manifests, number: int) -> Object:
    """An attempt's ConfigMap without its content. Raises CreationRefused for one that names no Secret: it is deleted
    first, and the next pass makes another.
    """
    name = made.names.attempt(number)
    found, _ = await api.list(CONFIG_MAPS, made.namespace, f"{UID_LABEL}={made.uid},{ATTEMPT_LABEL}={number}")
    for each in found:
        if each["metadata"]["name"] == name and RPC_PART in (each["metadata"].get("annotations") or {}):
            return each
    with suppress(NotFound):
        await api.delete(CONFIG_MAPS, made.namespace, name)
    sentence = f"The ConfigMap {name} names no Secret: it is made again."
    raise CreationRefused(f"{made.namespace}/{name} has no {RPC_PART}", code=409, sentence=sentence)


async def _create_secret(api: Api, secret: Object, config_map: Object) -> None:
    """One that somebody else made is not used: he knows what is in it. The ConfigMap that names it goes: the next pass
    must not take it for one that was made before the operator ended.
    """
    try:
        await create(api, secret)
    except AlreadyExists as error:
        name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
        with suppress(NotFound):
            await api.delete(CONFIG_MAPS, namespace, config_map["metadata"]["name"])
        sentence = f"The Secret {name} exists, and the operator did not make it: the next try has another name."
        raise CreationRefused(str(error), code=error.code, sentence=sentence) from error
