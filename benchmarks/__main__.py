"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import adaptive, forest, isolation, kernel, processors, regressor, stit, sweep
from .data import DataFolder
from .report import Report

SUITES = {
    "adaptive": adaptive.PARTS,
    "forest": forest.PARTS,
    "isolation": isolation.PARTS,
    "kernel": kernel.PARTS,
    "processors": processors.PARTS,
    "regressor": regressor.PARTS,
    "stit": stit.PARTS,
    "sweep": sweep.PARTS,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    suites = parser.add_subparsers(dest="suite", required=True)
    for name, parts in SUITES.items():
        suite = suites.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter)
        suite.epilog = "parts:\n" + "\n".join(
            f"  {part:<12}{(function.__doc__ or '').partition(chr(10))[0]}"
            for part, function in parts.items()
        )
        suite.add_argument("--data", type=Path, help="folder of the .npz data sets")
        suite.add_argument("--sets", nargs="+", default=[], help="of the data sets, these alone")
        suite.add_argument("--out", type=Path, default=Path("out"), help="tables and plots (out)")
        suite.add_argument("--quick", action="store_true", help="fewer samples, repeats and seeds")
        suite.add_argument(
            "--only", nargs="+", choices=list(parts), metavar="PART", default=list(parts)
        )
        if name == "isolation":
            suite.add_argument(
                "--device", choices=("cpu", "cuda"), default="cpu", help="for crossover (cpu)"
            )
    arguments = parser.parse_args()
    data = DataFolder(arguments.data, arguments.sets)
    for part in arguments.only:
        name = "_".join([part, *arguments.sets])
        with Report(arguments.suite, name, arguments.out, arguments.quick) as report:
            options = {"device": arguments.device} if part == "crossover" else {}
            SUITES[arguments.suite][part](data, report, arguments.quick, **options)


if __name__ == "__main__":
    main()
