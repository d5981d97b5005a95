"""Set-up of all test modules, and the choice and order of the tests that are run."""

import os
from collections import Counter

# Kernels that are loaded later can be made to lack memory.
from attack import allocations
from hypothesis import HealthCheck, settings
from inline_workers import engine
from small_package import installed, processes

__all__ = ["allocations", "engine", "installed", "processes"]

IS_NIGHTLY = os.environ.get("TEST_SEEDS") == "all"
# A slow machine is no error, and the suite has the same examples each time.
settings.register_profile(
    "suite", deadline=None, derandomize=not IS_NIGHTLY, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

# Files that compile much in processes or modes of their own, the longest first.
LONG = ["test_modes", "test_extending", "test_warmup", "test_packaged"]


def pytest_generate_tests(metafunc):
    """Run a test that takes a seed for three of them, unless it names its own."""
    marks = metafunc.definition.iter_markers("parametrize")
    if "seed" in metafunc.fixturenames and not any("seed" in mark.args[0] for mark in marks):
        metafunc.parametrize("seed", range(3))


def pytest_collection_modifyitems(config, items):
    """Keep the first seed of each test, unless `TEST_SEEDS=all`, as in the nightly workflow.

    Files of few tests that take long come first, then files of many tests.
    """
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
