"""The position of a categorical level in a tree, computed by its definition with integers."""

import fractions
import hashlib

import numpy as np

MASK = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


def code(level):
    """Return the 52 bits that represent a level."""
    if isinstance(level, str):
        text = f"str {level}"
    else:
        text = "number {:x}/{:x}".format(*fractions.Fraction(level).as_integer_ratio())
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % 2**52


def mix(state):
    """Return the output of splitmix64 for a state."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def keys(states):
    """Return the keys of trees from the states of their random numbers."""
    sequence = np.random.SeedSequence([int(s) & MASK for s in states], spawn_key=(3,))
    return sequence.generate_state(len(states), np.uint64).tolist()


def place(key, feature, level):
    """Return the position of a feature's level in a tree, given the feature's index and the key."""
    state = (key + feature * STEP) & MASK
    bits = mix(mix(state ^ (2**52 + code(level))))
    return float(np.float32((((bits >> 12) & (2**52 - 1)) + 0.5) / 2**52))
