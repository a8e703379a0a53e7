"""Text that someone else wrote, as one line that a terminal shows and does not obey."""

from __future__ import annotations

import unicodedata
from typing import Final

_OBEYED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's classes of control and format characters, halves of characters, and ends of lines."""


def plain(text: str) -> str:
    """The text with a blank in place of each character that moves the cursor, colours, reorders or hides.

    Escape sequences lose their first character, so that a terminal, and a log, show the rest.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if unicodedata.category(each) in _OBEYED else each for each in text)
