"""Which objects are really a resource's: labels can be forged by whoever may create a pod in any namespace."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from bucketingest.spec.model import KIND
from bucketingest_operator.resource import Resource


@dataclass(frozen=True, slots=True)
class Controller:
    """The object that controls another one, by its owner references."""

    kind: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """An object that was read: its namespace, and who controls it."""

    namespace: str
    controller: Controller | None = None


_NAME_MAX: Final = 63
_Owned = TypeVar("_Owned", bound=Owned)


def controller_of(metadata: dict[str, Any]) -> Controller | None:
    """The controller of an object; None if it has none, or one with a name that none can have: its author writes it."""
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            found = Controller(str(each.get("kind")), str(each.get("uid")))
            return found if max(len(found.kind), len(found.uid)) <= _NAME_MAX else None
    return None


def made_for(resource: Resource, objects: Collection[_Owned]) -> list[_Owned]:
    """The objects that the operator made for a resource: in its namespace, and controlled by it."""
    return controlled_by(resource, KIND, {resource.uid}, objects)


def controlled_by(resource: Resource, kind: str, uids: Collection[str], objects: Collection[_Owned]) -> list[_Owned]:
    """The objects in a resource's namespace that one of these controls, such as a driver pod its executors."""
    return [
        each
        for each in objects
        if each.namespace == resource.namespace
        and each.controller is not None
        and each.controller.kind == kind
        and each.controller.uid in uids
    ]
