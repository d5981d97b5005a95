"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from .anomaly import ALARMS, alarms
from .data import DataFolder
from .report import Report, Suite

NAMES = "ablation adaptive adaptive_regressor anomaly batches calibration capymoa categories "
NAMES += "distributed drift forest forgetting importances isolation kernel limits processors "
NAMES += "recipes regressor robustness stit sweep text versions"


def first_line(one: object) -> str:
    return (one.__doc__ or "").partition("\n")[0]


def suites() -> dict[str, Suite]:
    """Return the suites by name; the first line of a module's docstring is the page's title."""
    modules = {name: importlib.import_module(f".{name}", __package__) for name in NAMES.split()}
    found = [(name, first_line(module), module.PARTS) for name, module in modules.items()]
    found.append(("alarms", first_line(alarms), ALARMS))
    return {name: Suite(name, title.rstrip("."), parts) for name, title, parts in found}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="suite", required=True)
    known = suites()
    for name, suite in known.items():
        command = commands.add_parser(
            name, description=suite.title, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.epilog = "parts:\n" + "\n".join(
            f"  {part:<14}{first_line(function)}" for part, function in suite.parts.items()
        )
        command.add_argument("--data", type=Path, help="folder of the .npz data sets")
        command.add_argument("--sets", nargs="+", default=[], help="use only these data sets")
        command.add_argument(
            "--out", type=Path, default=Path("out"), help="folder of pages and plots (out)"
        )
        command.add_argument(
            "--quick", action="store_true", help="use fewer samples, repeats and seeds"
        )
        parts = list(suite.parts)
        command.add_argument("--only", nargs="+", choices=parts, metavar="PART", default=parts)
        if name == "versions":
            command.add_argument("--base", required=True, metavar="COMMIT", help="to compare with")
            command.add_argument(
                "--repeats", type=int, default=9, help="number of repeats of each timing (9)"
            )
    arguments = parser.parse_args()
    suite = known[arguments.suite]
    data = DataFolder(arguments.data, arguments.sets)
    options = {}
    if suite.name == "versions":
        options = {"base": arguments.base, "repeats": arguments.repeats}
    failed = False
    for part in arguments.only:
        with Report(suite, part, data.sets, arguments.out, arguments.quick) as report:
            failed |= suite.parts[part](data, report, arguments.quick, **options) is False
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
