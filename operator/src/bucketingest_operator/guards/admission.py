"""What is refused at `kubectl apply`: what the definition cannot say, in the words of `validate` and of the status."""

from __future__ import annotations

import logging
from typing import Any, Final

from bucketingest.decode.sql.words import sql_problems
from bucketingest.spec.errors import format_problem
from bucketingest.spec.reading.plain_text import plain
from bucketingest_operator.decide.permission import forbidden
from bucketingest_operator.manifests.attempt_objects import Manifests
from bucketingest_operator.manifests.settings import JobSettings
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.resource_reading import read_wanted

log = logging.getLogger(__name__)

Object = dict[str, Any]
_PROBLEMS_MAX: Final = 20
_WORDS_MAX: Final = 500


class Admission:
    """Judges changed specs, by what the change makes wrong: what was wrong before must not keep anyone from suspending.
    The settings say what an administrator allows.
    """

    def __init__(self, inventory: Inventory, settings: JobSettings) -> None:
        self._inventory = inventory
        self._settings = settings

    def why_refused(self, body: Object, before: Object | None) -> str | None:
        """Why a BucketIngest is not taken, one problem a line; None if it is.

        Args:
            body: As it would be stored.
            before: As it is stored; None if it is new. A spec that stays is not judged again: its status, its
                finalizers and its deletion must not depend on it.
        """
        if "deletionTimestamp" in body["metadata"] or (before is not None and before.get("spec") == body.get("spec")):
            return None
        try:
            known = set() if before is None else set(self._problems(before))
            found = [each for each in self._problems(body) if each not in known]
        except Exception:
            # The status will say what is wrong. A webhook that fails must not keep anything from being stored.
            log.exception("a BucketIngest could not be judged, and is taken")
            return None
        return "\n".join(plain(each)[:_WORDS_MAX] for each in found[:_PROBLEMS_MAX]) or None

    def _problems(self, body: Object) -> list[str]:
        wanted, problems, _ = read_wanted(body)
        if wanted is None:
            return [format_problem("", each) for each in problems]
        found = [format_problem("", each) for each in sql_problems(wanted.spec)]
        namespace, uid = body["metadata"]["namespace"], body["metadata"].get("uid") or "none"
        if (why := forbidden(Manifests(wanted, namespace, uid, self._settings))) is not None:
            found.append(why)
        return found + self._inventory.taken(body)
