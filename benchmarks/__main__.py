"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import (
    ablation,
    adaptive,
    adaptive_regressor,
    anomaly,
    calibration,
    capymoa,
    categories,
    distributed,
    drift,
    forest,
    forgetting,
    importances,
    isolation,
    kernel,
    limits,
    processors,
    regressor,
    robustness,
    stit,
    sweep,
    versions,
)
from .data import DataFolder
from .report import Report

SUITES = {
    "ablation": ablation.PARTS,
    "adaptive": adaptive.PARTS,
    "adaptive_regressor": adaptive_regressor.PARTS,
    "anomaly": anomaly.PARTS,
    "capymoa": capymoa.PARTS,
    "calibration": calibration.PARTS,
    "categories": categories.PARTS,
    "distributed": distributed.PARTS,
    "drift": drift.PARTS,
    "forest": forest.PARTS,
    "forgetting": forgetting.PARTS,
    "importances": importances.PARTS,
    "isolation": isolation.PARTS,
    "kernel": kernel.PARTS,
    "limits": limits.PARTS,
    "processors": processors.PARTS,
    "regressor": regressor.PARTS,
    "robustness": robustness.PARTS,
    "stit": stit.PARTS,
    "sweep": sweep.PARTS,
    "versions": versions.PARTS,
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
        suite.add_argument("--sets", nargs="+", default=[], help="use only these data sets")
        suite.add_argument(
            "--out", type=Path, default=Path("out"), help="folder of tables and plots (out)"
        )
        suite.add_argument(
            "--quick", action="store_true", help="use fewer samples, repeats and seeds"
        )
        suite.add_argument(
            "--only", nargs="+", choices=list(parts), metavar="PART", default=list(parts)
        )
        if name == "isolation":
            suite.add_argument(
                "--device", choices=("cpu", "cuda"), default="cpu", help="for crossover (cpu)"
            )
        if name == "adaptive_regressor":
            suite.add_argument(
                "--known", type=Path, help="file of the results of an earlier run, .json"
            )
            suite.add_argument("--models", nargs="+", default=[], help="use only these models")
            suite.add_argument("--seeds", type=int, default=0, help="instead of the part's number")
        if name == "robustness":
            for what in robustness.Limits._fields:
                suite.add_argument(
                    f"--{what}", type=int, default=0, help="instead of the part's number"
                )
        if name == "versions":
            suite.add_argument("--base", required=True, metavar="COMMIT", help="to compare with")
            suite.add_argument(
                "--repeats", type=int, default=9, help="number of repeats of each timing (9)"
            )
    arguments = parser.parse_args()
    data = DataFolder(arguments.data, arguments.sets)
    failed = False
    for part in arguments.only:
        with Report(arguments.suite, part, data.sets, arguments.out, arguments.quick) as report:
            options = {"device": arguments.device} if part == "crossover" else {}
            if (arguments.suite, part) == ("adaptive_regressor", "streams"):
                chosen = tuple(arguments.models)
                options = {"known": arguments.known, "chosen": chosen, "seeds": arguments.seeds}
            if arguments.suite == "versions":
                options = {"base": arguments.base, "repeats": arguments.repeats}
            if arguments.suite == "robustness":
                sizes = (getattr(arguments, what) for what in robustness.Limits._fields)
                options = {"limits": robustness.Limits(*sizes)}
            passed = SUITES[arguments.suite][part](data, report, arguments.quick, **options)
            failed |= passed is False
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
