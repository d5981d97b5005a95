"""How often each attack has been tried, for the table of `python -m tests.attack`."""

import os
from collections import Counter
from pathlib import Path


def note(attack, n):
    """Note that an attack has been tried so often, in the file that `ATTACK_TALLY` names."""
    if path := os.environ.get("ATTACK_TALLY"):
        # One short line at once, since several processes write.
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{n} {attack}\n")


def sums(path):
    """Return how often each attack is in a file."""
    found = Counter()
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        n, attack = line.split(" ", 1)
        found[attack] += int(n)
    return found
