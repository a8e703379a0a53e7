"""How figures and tables look in a report for a person."""

from __future__ import annotations

from rich import box
from rich.table import Table


def age(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    for unit, size, below, below_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // below_size} {below}"
    return f"{whole} s"


def megabytes(size_bytes: int) -> str:
    """Bytes as MB (10^6)."""
    return f"{size_bytes / 1e6:,.3f}"


def new_table(title: str, *columns: str) -> Table:
    """A table; a column whose name starts with > is aligned to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if right else "left", overflow="fold")
    return table
