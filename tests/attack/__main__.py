"""All attacks: `python -m tests.attack --full`, or as the suite has them without `--full`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

# What an attack is called, and the tests that run it.
ATTACKS = {
    "an exception at each line of Python, each allocation that fails": "test_attack*.py",
    "signals, and a limit of memory": "test_interruptions.py",
    "threads": "test_threads.py",
    "shared memory": "test_shared_memory.py",
    "damage": "test_damaged.py",
}


def run(title, arguments, environment):
    """Run a command; tell whether it has passed."""
    print(f"== {title}", flush=True)
    found = subprocess.run([sys.executable, *arguments], env=os.environ | environment, check=False)
    return found.returncode == 0


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--full", action="store_true", help="all lines, signals and bits")
    full = parser.parse_args().full
    environment = {"ATTACK_EVERY": "1", "ATTACK_SIGNALS": "1000", "ATTACK_SECONDS": "2"}
    failed = []
    for title, pattern in ATTACKS.items():
        files = sorted(map(str, TESTS.glob(pattern)))
        arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
        if not run(title, arguments, environment if full else {}):
            failed.append(title)
    flips = "2000" if full else "40"
    if not run("flipped bits", [str(TESTS / "attack" / "bitflips.py"), "--flips", flips], {}):
        failed.append("flipped bits")
    for title in failed:
        print(f"FAILED: {title}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
