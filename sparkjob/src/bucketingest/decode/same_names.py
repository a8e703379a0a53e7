"""Two columns that no table can have, in words: for every format's schema."""

from __future__ import annotations


def same_names(one: str, other: str) -> str:
    """Why these two cannot be in one table, in words that follow the field that has them."""
    if one == other:
        return f"has the column {one} twice"
    return f"has the columns {one} and {other}, which differ in case only: Spark cannot tell them apart"
