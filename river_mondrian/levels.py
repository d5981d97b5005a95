"""Levels of categories, as numbers by which trees place them."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np

from .limits import LEAST_LEVEL

# What a mapping may hold besides numbers, where it need not be looked at twice.
PLAIN = frozenset({str, bool})

# Levels whose codes are at hand; the others are hashed again.
MOST_CACHED = 1 << 16

_CODES = 2**52


class Level(float):
    """A level of a category as its code: `LEAST_LEVEL` times 1 and a fraction, a hash of it.

    No feature has a number as large, so that a code tells by itself that it is one, in arrays, too.
    Since it is a hash, levels need no table: there may be any number of them, at any time. Of
    100,000 levels two have the same code with probability one in a million.
    """

    __slots__ = ("level",)

    level: Any

    def __new__(cls, code: float, level: Any) -> Level:
        """Make a level of its code and what the user calls it."""
        made = super().__new__(cls, code)
        made.level = level
        return made


@functools.lru_cache(MOST_CACHED, typed=True)
def level_of(value: Any) -> Level:
    """Return the level that a string, a truth value or a number stands for."""
    # NumPy's are the same levels as Python's, and an enum of strings as its strings.
    value = value.item() if isinstance(value, np.generic) else value
    text = str.__str__(value) if isinstance(value, str) else repr(value)
    kind = "str" if isinstance(value, str) else type(value).__name__
    tagged = f"{kind} {text}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(tagged, digest_size=8).digest()
    fraction = int.from_bytes(digest, "little") % _CODES / _CODES
    return Level(LEAST_LEVEL * (1.0 + fraction), value)


TRUTH_VALUES = {float(level_of(value)): float(value) for value in (False, True)}
