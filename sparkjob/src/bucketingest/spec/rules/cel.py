"""Kinds of rules that the API server checks, in CEL.

A transition rule on an optional field is skipped when the field is added or removed. So those for immutable fields are
on the object around them, which is always there, and compare the presence of the field too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bucketingest.spec.rules.finding import in_words
from bucketingest.spec.rules.source import HIDDEN


@dataclass(frozen=True, slots=True)
class CelRule:
    """One entry of `x-kubernetes-validations`.

    Attributes:
        rule: The CEL expression; `self` is the value of the node that has the rule.
        message: What the user reads when it is false.
        field: Path of the field to blame, relative to the node, such as `.format`; "" for the node itself.
    """

    rule: str
    message: str
    field: str = ""

    def as_dict(self) -> dict[str, str]:
        """The rule as the CRD has it."""
        entry = {"rule": self.rule, "message": self.message}
        return {**entry, "fieldPath": self.field} if self.field else entry


def immutable_rules(names: Sequence[str], schema: Mapping[str, Any]) -> list[CelRule]:
    """Transition rules that keep fields of an object as they were when it was created. Its schema says which of them
    are always there (required, or with a default).
    """
    rules = []
    for name in names:
        always = name in schema.get("required", ()) or "default" in schema["properties"][name]
        same = f"self.{name} == oldSelf.{name}"
        rule = same if always else f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})"
        rules.append(CelRule(rule, f"{name} is immutable: create another BucketIngest for another table", f".{name}"))
    return rules


def quoted(names: Sequence[str]) -> str:
    """A list of texts in CEL."""
    return "[" + ", ".join(f"'{name}'" for name in names) + "]"


def refuses(names: Mapping[str, str], advice: str) -> CelRule:
    """Names that a mapping must not have."""
    # Spark compares names without regard to case. CEL cannot at a bounded cost (the length of a name in a map has no
    # limit), so other spellings are found by the job only.
    return CelRule(f"self.all(name, !(name in {quoted(list(names))}))", f"must not set {', '.join(names)}: {advice}")


def other_name(kind: str, is_same_place: str) -> CelRule:
    """An Iceberg table has another name than the Hudi table in the same place."""

    def table(of: str) -> str:
        return f"(has({of}.table) ? {of}.table : '')"

    same = f"made.iceberg.database == other.{kind}.database && {table('made.iceberg')} == {table(f'other.{kind}')}"
    return CelRule(
        f"self.all(made, !has(made.iceberg) || made.iceberg.type != '{kind}' || "
        f"self.all(other, !has(other.{kind}) || !({same} && {is_same_place})))",
        f"iceberg.table must be another name than that of {kind} in the same database",
    )


def options_of(kind: str, names: Sequence[str]) -> CelRule:
    """A format of files has these options only."""
    rule = f"self.format != '{kind}' || !has(self.options) || self.options.all(name, name in {quoted(list(names))})"
    return CelRule(rule, f"options of {kind} are {', '.join(names)} only", ".options")


def outside(field: str, directory: str) -> CelRule:
    """A path that is not below another one."""
    inside = f"(self.{field} + '/').startsWith(self.{directory} + '/')"
    needed = [each for each in (field, directory) if each != "table.path"]
    guard = " || ".join(f"!has(self.{'source.files' if 'source' in each else each})" for each in needed)
    rule, message = f"{guard} || !{inside}", f"{field} must lie outside of {directory}"
    if "source" in directory:
        rule += f" || (self.{field} + '/').substring(size(self.{directory})).matches('{HIDDEN}')"
        message += ", or below a directory of it that begins with _"
    return CelRule(rule, message, f".{field}")


def longer_than_interval(field: str) -> CelRule:
    """A time that is longer than `commit.interval`."""
    rule = f"self.commit.mode != 'interval' || duration(self.{field}) > duration(self.commit.interval)"
    return CelRule(rule, f"{field} must be longer than commit.interval", f".{field}")


def longer_than_lease(field: str) -> CelRule:
    """A time that is longer than `table.lock.leaseValidity`."""
    rule = f"duration(self.{field}) > duration(self.leaseValidity)"
    return CelRule(rule, f"{field} must be longer than leaseValidity", f".{field}")


def one_of(names: Sequence[str], *, each: bool = False) -> CelRule:
    """Exactly one of the fields is given. `each`: in each item of a list."""
    of = "each" if each else "self"
    given = [f"has({of}.{name})" for name in names]
    rule = " != ".join(given) if len(given) == 2 else f"[{', '.join(given)}].filter(given, given).size() == 1"
    message = f"have exactly one of {in_words(names)}"
    return CelRule(f"self.all(each, {rule})", f"must each {message}") if each else CelRule(rule, f"must {message}")
