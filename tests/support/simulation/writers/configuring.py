"""A change of hoodie.properties by another writer, in Hudi's steps: a backup; the file goes; it comes again."""

from __future__ import annotations

from typing import Final

from bucketingest.storage import NotFound
from support.simulation.view import View
from support.simulation.world import Actor
from support.simulation.writers.visit import Visit

PROPERTIES: Final = ".hoodie/hoodie.properties"
BACKUP: Final = f"{PROPERTIES}.backup"
_PAUSES: Final = (10, 60, 300)


def configure(visit: Visit, actor: Actor, storage: View) -> None:
    """Finish what another one left, else change something; it may die or pause between any two steps."""
    with visit.others.alone("configuring") as alone:
        if not alone:
            return
        if not storage.exists(PROPERTIES):
            _restore(storage)
            return
        content = storage.get(PROPERTIES)
        storage.put(BACKUP, content)
        storage.delete(PROPERTIES)
        visit.world.note(visit.name, "takes away", PROPERTIES)
        visit.world.stall(actor, visit.rng.choice(_PAUSES))
        storage.put(PROPERTIES, content + f"hoodie.changed.by={visit.name}\n".encode())
        storage.delete(BACKUP)
    visit.world.note(visit.name, "configures")


def _restore(storage: View) -> None:
    try:
        content = storage.get(BACKUP)
    except NotFound:
        return
    storage.put(PROPERTIES, content)
    storage.delete(BACKUP)
