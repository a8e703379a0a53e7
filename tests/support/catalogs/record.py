"""Records what Hudi's HiveSyncTool registers of the tables here: PYTHONPATH=tests python -m support.catalogs.record."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from support.catalogs.metastore import running_metastore
from support.catalogs.tables import TABLES, registered
from support.oracle.environment import find_environment

RECORDED = Path(__file__).parents[2] / "fixtures" / "catalogs" / "hive-sync-1.2.0.json"


def main() -> None:
    """Write the fixture."""
    found = {}
    with (
        TemporaryDirectory() as folder,
        running_metastore(find_environment(), Path(folder) / "metastore") as metastore,
        closing(metastore.connect()) as catalog,
    ):
        for name, table in TABLES.items():
            base = Path(folder) / name
            table.write(base)
            metastore.hive_sync(table, base, name)
            for each in (name, f"{name}_rt", f"{name}_ro"):
                found[each] = registered(catalog, each, base)
    RECORDED.parent.mkdir(exist_ok=True)
    RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
