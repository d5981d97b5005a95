"""Counts of attempts by attack, which `python -m tests.attack` prints."""

import os
from collections import Counter
from pathlib import Path


def note(attack, n):
    """Add `n` attempts of an attack to the file that `ATTACK_TALLY` names."""
    if path := os.environ.get("ATTACK_TALLY"):
        # Several processes write to the file, so a line is written in one call.
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{n} {attack}\n")


def sums(path):
    """Return the number of attempts of each attack in a file."""
    found = Counter()
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        n, attack = line.split(" ", 1)
        found[attack] += int(n)
    return found
