"""Command line of the benchmarks."""

import argparse
import importlib
from contextlib import suppress
from pathlib import Path

from .data import DataFolder, MissingSet
from .report import Report, Suite

# Modules with the parts of a suite. The last part of a module's path is the name of the suite.
MODULES = "ablation adaptive adaptive_regressor anomaly anomaly.alarms batches calibration capymoa "
MODULES += "categories distributed drift forest forgetting importances isolation kernel limits "
MODULES += "processors recipes regressor robustness stit sweep text versions"


def first_line(one: object) -> str:
    return (one.__doc__ or "").partition("\n")[0]


def suites() -> dict[str, Suite]:
    """Return the suites by name; the first line of a module's docstring is the page's title."""
    found = {}
    for path in MODULES.split():
        module, name = importlib.import_module(f".{path}", __package__), path.rpartition(".")[2]
        parts = {part.__name__: part for part in module.PARTS}
        found[name] = Suite(name, first_line(module).rstrip("."), parts)
    return found


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
    arguments = parser.parse_args()
    suite = known[arguments.suite]
    data = DataFolder(arguments.data, arguments.sets)
    options = {"base": arguments.base} if suite.name == "versions" else {}
    failed = False
    for part in arguments.only:
        with (
            Report(suite, part, data.sets, arguments.out, arguments.quick) as report,
            suppress(MissingSet),
        ):
            failed |= suite.parts[part](data, report, arguments.quick, **options) is False
    unused = [name for name in data.sets if name not in data.asked]
    if unused:
        used = ", ".join(data.asked) or "no data sets"
        quick = " with --quick" if arguments.quick else ""
        raise SystemExit(f"--sets: no part uses {', '.join(unused)}{quick}, but {used}")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
