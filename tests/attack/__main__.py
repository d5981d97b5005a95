"""Run attacks on models: all cases with `--full`, otherwise the cases of the test suite.

A full run takes hours. At the end, the run prints the number of attempts for the attacks that count
them (`tally.note`). No attempt may succeed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .tally import sums

TESTS = Path(__file__).parents[1]

# Names of attacks, and the tests that run them.
ATTACKS = {
    "an exception at each line of Python, each allocation that fails": "test_attack*.py",
    "signals, and a limit of memory": "test_interruptions.py",
    "threads": "test_threads.py",
    "damage": "test_damaged.py",
}


def run(title, arguments, environment):
    """Run a command; return whether it has passed."""
    print(f"== {title}", flush=True)
    found = subprocess.run([sys.executable, *arguments], env=os.environ | environment, check=False)
    return found.returncode == 0


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument(
        "--full",
        action="store_true",
        help="all lines of calls with fewer than 10,000, all signals and bits",
    )
    full = parser.parse_args().full
    tally = Path(tempfile.mkdtemp()) / "tally"
    environment = {"ATTACK_TALLY": str(tally)}
    if full:
        # For each model, three tests send ATTACK_SIGNALS signals each.
        environment |= {"ATTACK_EVERY": "1", "ATTACK_SIGNALS": "334", "ATTACK_SECONDS": "1"}
    failed = []
    for title, pattern in ATTACKS.items():
        files = sorted(map(str, TESTS.glob(pattern)))
        arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "auto", *files]
        if not run(title, arguments, environment):
            failed.append(title)
    flips = "2000" if full else "40"
    if not run("flipped bits", [str(TESTS / "attack" / "bitflips.py"), "--flips", flips], {}):
        failed.append("flipped bits")
    checked = {"RIVER_MONDRIAN_CHECKS": "1"}
    if full and not run("exchanged parts", [str(TESTS / "attack" / "swaps.py")], checked):
        failed.append("exchanged parts")
    for attack, n in sums(tally).items():
        print(f"{n:12,} {attack}")
    for title in failed:
        print(f"FAILED: {title}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
