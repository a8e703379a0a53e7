"""Damage to the bytes of a message: cut, extended, replaced."""

from __future__ import annotations

import random


def damaged(message: bytes, chance: random.Random) -> bytes:
    """The message with one damage."""
    at = chance.randrange(len(message) + 1)
    some = chance.randbytes(chance.choice((1, 1, 2, 9)))
    match chance.randrange(5):
        case 0:
            return message[:at]
        case 1:
            return message + some
        case 2:
            return message[:at] + some + message[at:]
        case 3:
            return message[:at] + message[at + 1 :]
    return message[:at] + some + message[at + len(some) :]
