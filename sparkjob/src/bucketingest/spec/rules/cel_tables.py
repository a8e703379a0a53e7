"""What the API server checks of a resource with many tables, and of one without: as `tables`."""

from __future__ import annotations

from typing import Final

from bucketingest.spec.rules.cel import CelRule
from bucketingest.spec.rules.running import CATALOGS


def _has(path: str) -> str:
    parts = path.split(".")
    optional = {"kafka", "name", "pipeline", "deadLetterPath", "path", "commitGroup", "maxInstances", "mode"}
    return " && ".join(
        f"has(self.{'.'.join(parts[: at + 1])})"
        for at, part in enumerate(parts)
        if part in optional and parts[: at + 1] != ["table", "path"]
    )


TABLES: Final = (
    CelRule(
        "has(self.tables) == self.table.path.contains('{topic}')",
        "table.path has {topic} with tables, and without them it has not",
        ".table.path",
    ),
    *(
        CelRule(
            f"!({_has(path)}) || has(self.tables) == self.{path}.contains('{{topic}}')",
            f"{path} has {{topic}} with tables, and without them it has not",
            f".{path}",
        )
        for path in ("table.name", "table.pipeline", "errors.deadLetterPath")
    ),
    *(
        CelRule(f"!has(self.tables) || !({_has(path)})", f"{path} is not allowed with tables", f".{path}")
        for path in ("source.kafka.commitGroup", "checkpoint.path", "spark.executor.maxInstances")
    ),
    CelRule(
        "!has(self.tables) || (has(self.source.kafka) && self.source.kafka.startingOffsets == 'earliest')",
        "tables is for source.kafka with startingOffsets earliest only",
        ".tables",
    ),
    CelRule("!has(self.tables) || !has(self.audit)", "audit is not allowed with tables", ".audit"),
    *(
        CelRule(
            f"self.catalogs.all(each, !has(each.{kind}) || !has(each.{kind}.table) || "
            f"has(self.tables) == each.{kind}.table.contains('{{topic}}'))",
            f"table of catalogs' {kind} has {{topic}} with tables, and without them it has not",
            ".catalogs",
        )
        for kind in CATALOGS
    ),
    CelRule(
        "!has(self.tables) || !has(self.services.mode) || self.services.mode != 'job'",
        "services.mode job is not allowed with tables",
        ".services.mode",
    ),
    CelRule(
        "!has(self.tables) || !self.services.whileSuspended",
        "services.whileSuspended is not allowed with tables",
        ".services.whileSuspended",
    ),
    CelRule(
        "!has(self.tables) || self.tables.overrides.all(each, !has(each.format) || !has(each.format.registry) || "
        "!has(each.format.registry.secretRef) || (has(self.format) && has(self.format.registry) && "
        "has(self.format.registry.secretRef) && "
        "each.format.registry.secretRef.name == self.format.registry.secretRef.name))",
        "tables.overrides must have the registry's Secret of format",
        ".tables",
    ),
)
