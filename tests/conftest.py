"""Set-up of all test modules: fixtures, selection and order of tests."""

import os
from collections import Counter, defaultdict

import pytest

# This import must precede the kernels, so that their allocations can fail.
from attack import allocations
from core import ALGORITHMS, PROMISES
from hypothesis import HealthCheck, settings
from inline_workers import engine
from small_package import installed, processes

__all__ = ["allocations", "engine", "installed", "processes"]

IS_NIGHTLY = os.environ.get("TEST_SEEDS") == "all"
# Tests have no deadline, so slow machines pass. Examples are the same in each run.
settings.register_profile(
    "suite", deadline=None, derandomize=not IS_NIGHTLY, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

# Files that compile in separate processes or modes, the slowest first.
LONG = ["test_modes", "test_extending", "test_warmup", "test_packaged"]


def pytest_generate_tests(metafunc):
    """Run each test that has an argument `seed` for three seeds, unless it names its seeds."""
    marks = metafunc.definition.iter_markers("parametrize")
    if "seed" in metafunc.fixturenames and not any("seed" in mark.args[0] for mark in marks):
        metafunc.parametrize("seed", range(3))


def mark_core(config, items):
    """Mark the core tests. If no paths were passed to pytest, each core test must exist."""
    names = {
        item.nodeid.removeprefix("tests/test_").replace(".py::test_", "::"): item for item in items
    }
    for start in (*PROMISES.values(), *ALGORITHMS.values()):
        item = next((item for name, item in names.items() if name.startswith(start)), None)
        if item is not None:
            item.add_marker(pytest.mark.core)
        elif not config.option.file_or_dir:
            raise pytest.UsageError(f"tests/core.py names a test that does not exist: {start}")


def covering(items):
    """Return a selection of a test's items that has each value of each parameter.

    Values occur equally often, as far as possible.
    """
    values = {item: {(k, id(v)) for k, v in item.callspec.params.items()} for item in items}
    kept = [item for item in items if item.get_closest_marker("core")]
    counts = Counter(value for item in kept for value in values[item])
    while missing := set().union(*values.values()) - counts.keys():
        kept.append(
            max(
                items,
                key=lambda item: (
                    len(values[item] & missing),
                    -sum(counts[value] for value in values[item]),
                ),
            )
        )
        counts.update(values[kept[-1]])
    return kept


def pytest_collection_modifyitems(config, items):
    """Select tests, unless `TEST_SEEDS=all` is set, as in the nightly workflow.

    Of each test, the first seed is kept. Of a test that is marked `covering`, fewer combinations of
    parameters are kept. Slow files with few tests come first, then files by their number of tests.
    """
    mark_core(config, items)
    n_tests = Counter(item.path for item in items)
    order = {f"{name}.py": number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: (order.get(item.path.name, len(LONG)), -n_tests[item.path]))
    if IS_NIGHTLY:
        return
    first, kept, covered = {}, [], defaultdict(list)
    for item in items:
        # A test without a seed is kept.
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        test, seed = item.nodeid.partition("[")[0], parameters.get("seed")
        if seed == first.setdefault(test, seed):
            kept.append(item)
            if parameters and item.get_closest_marker("covering"):
                covered[test].append(item)
    chosen = {item for group in covered.values() for item in covering(group)}
    left = {item for group in covered.values() for item in group} - chosen | {*items} - {*kept}
    config.hook.pytest_deselected(items=[*left])
    items[:] = [item for item in items if item not in left]
