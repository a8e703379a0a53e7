"""Actions and conditions of the operator's plans."""

from __future__ import annotations

from bucketingest.spec.status import Condition
from bucketingest_operator.decide.plan import EmitEvent, Plan


def kinds(plan: Plan) -> list[str]:
    return [type(each).__name__ for each in plan.actions if not isinstance(each, EmitEvent)]


def events(plan: Plan) -> list[EmitEvent]:
    return [each for each in plan.actions if isinstance(each, EmitEvent)]


def condition(plan: Plan, kind: str) -> Condition:
    return next(each for each in plan.status.conditions or () if each.type == kind)
