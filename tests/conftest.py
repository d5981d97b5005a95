"""Set-up of all test modules: fixtures, selection and order of tests."""

import os
from collections import Counter

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


def pytest_collection_modifyitems(config, items):
    """Keep the first seed of each test, unless `TEST_SEEDS=all` is set, as in the nightly workflow.

    Slow files with few tests come first, then files by their number of tests.
    """
    mark_core(config, items)
    n_tests = Counter(item.path for item in items)
    order = {f"{name}.py": number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: (order.get(item.path.name, len(LONG)), -n_tests[item.path]))
    if IS_NIGHTLY:
        return
    first, kept, left = {}, [], []
    for item in items:
        seed = getattr(item, "callspec", None) and item.callspec.params.get("seed")
        # A test without a seed is kept.
        test = item.nodeid.partition("[")[0]
        (kept if seed == first.setdefault(test, seed) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept
