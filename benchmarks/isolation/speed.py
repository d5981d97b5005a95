"""Rows per second of learning, and the time to find cells on the CPU, on a GPU and by ikpykit."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numba
import numpy as np
import pandas as pd

from river_mondrian import IsolationFeatures, OGDClassifier
from river_mondrian.partitions.voronoi import cuda

from ..data import DataFolder, stream
from ..report import Report, progress
from ..timing import median, no_gc, ratio, repeated
from .models import IK_A, IK_I, METHODS, RATE, T, built, isolation_map
from .sets import ROWS, Set, frame_of, gaussian_blobs, load_set, split, two_class_sets


def calls_of(calls: Mapping[str, Callable[[], Any]], seed: int = 0) -> dict[str, Iterator[str]]:
    """Convert each call to an iterator with one step."""

    def step(call: Callable[[], Any]) -> Iterator[str]:
        call()
        yield "all"

    return {name: step(call) for name, call in calls.items()}


def speed(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the rows per second of IK-OGD, with frames and with mappings."""
    sets = two_class_sets(data, quick, {"a9a": ROWS["a9a"]})
    n, repeats = (300, 1) if quick else (20_000, 3)
    rows = []
    for each in sets:
        frame, labels = frame_of(each.X), pd.Series(each.y)
        samples = stream(each.X, each.y, n)
        for peer in (IK_I, IK_A):
            progress(f"speed: {each.name}, {peer}")
            features = isolation_map(METHODS[peer], 64, min(1024, len(each.X)))
            OGDClassifier(loss="hinge", learning_rate=RATE).learn_many(frame[:64], labels[:64])
            for call, count in (("learn_many", len(frame)), ("learn_one", len(samples))):
                spent = []
                for _ in range(repeats):
                    model = OGDClassifier(features=features, loss="hinge", learning_rate=RATE)
                    with no_gc():
                        began = time.process_time(), time.perf_counter()
                        if call == "learn_many":
                            model.learn_many(frame, labels)
                        else:
                            for x, y in samples:
                                model.learn_one(x, y)
                        spent.append(
                            (time.process_time() - began[0], time.perf_counter() - began[1])
                        )
                rate, wall = (
                    count / statistics.median(times) for times in zip(*spent, strict=True)
                )
                rows.append(
                    (
                        each.name,
                        peer,
                        call,
                        count,
                        f"{rate:.0f}",
                        f"{wall:.0f}",
                    )
                )
    report.note(
        "Rows per second of IK-OGD, with frames and with mappings. Models have psi = 64 cells per "
        f"partition, a pool of 1024 points, t = {T} partitions and the hinge loss. The time "
        "includes building each map and learning the stored samples again. Rates are medians of "
        f"{repeats} runs. The column `rows/s` uses the CPU time of the process, which excludes "
        "other load of the machine. The last column uses the wall clock."
    )
    report.table(("data", "model", "call", "rows", "rows/s", "by the clock"), rows)


@numba.njit(fastmath=True)
def _loop(x: Any, points: Any, members: Any, out: Any) -> None:
    """Write the index of the nearest point in each partition, by a loop over all points."""
    for k in range(members.shape[0]):
        best = np.inf
        for j in range(members.shape[1]):
            distance = np.float32(0.0)
            for i in range(len(x)):
                gap = x[i] - points[members[k, j], i]
                distance += gap * gap
            if distance < best:
                best, out[k] = distance, j


def _each(call: Callable[[Any], Any], items: Any) -> None:
    for item in items:
        call(item)


def cells(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare the time of aNNE cells with a loop over t psi points, and with ikpykit."""
    asked = {
        "letter": (10_000, 1024),
        "mnist": (10_000, 256),
        "covtype": (100_000, 4096),
    }
    n, repeats = (20, 1) if quick else (200, 3)
    rows = []
    sets: list[tuple[Set, int, int]] = []
    for name, (pool, psi) in list(asked.items())[: 1 if quick else None]:
        each = load_set(data, name)
        if each is not None:
            sets.append((each, pool, psi))
    if data.folder is None:
        X, y = gaussian_blobs(3000, 20)
        sets = [(split("Gaussian blobs", X, y), 2000, 256)]
    for each, pool, psi in sets:
        progress(f"cells: {each.name}")
        features = IsolationFeatures(T, psi, pool_size=pool, seed=1)
        features = built(features, each.X[:pool])
        rng = np.random.default_rng(0)
        points = each.X[:pool].astype(np.float32)
        members = np.array([rng.choice(pool, psi, replace=False) for _ in range(T)])
        test = each.X_test[:n].astype(np.float32)
        samples = [x for x, _ in stream(test, each.y_test[:n])]
        out = np.zeros(T, dtype=np.int64)
        _loop(test[0], points=points, members=members, out=out)
        features.cells_one(samples[0])

        calls = {
            "ours": partial(_each, features.cells_one, samples),
            "loop": partial(_each, partial(_loop, points=points, members=members, out=out), test),
        }
        runs = repeated(repeats, partial(calls_of, calls))
        middle, least, most = ratio(runs, "loop", "ours", "all")
        rows.append(
            (
                f"{each.name}, {each.d}",
                pool,
                psi,
                f"{1e6 * median(runs, 'ours', 'all') / n:.0f}",
                f"{1e6 * median(runs, 'loop', 'all') / n:.0f}",
                f"{middle:.1f}",
                f"{least:.1f} - {most:.1f}",
            )
        )
    report.note(
        f"Time to find the Voronoi cells of single samples. `cells_one` gets mappings of {n} test "
        f"rows, and finds cells in t = {T} partitions of psi points each. The comparison is a "
        "compiled loop over all t psi points on arrays. Times and the ratio are medians of "
        f"{repeats} runs; the last column has the smallest and the largest ratio."
    )
    report.table(
        (
            "data, d",
            "pool",
            "psi",
            "package, us",
            "loop, us",
            "ratio",
            "smallest - largest",
        ),
        rows,
    )
    _ikpykit(report, quick)


def _ikpykit(report: Report, quick: bool) -> None:
    """Compare `to_csr` with the transform of ikpykit, if ikpykit is installed."""
    if importlib.util.find_spec("ikpykit") is None:
        report.note("ikpykit is not installed.")
        return
    from ikpykit.kernel import IsoKernel

    n, repeats = (500, 1) if quick else (4000, 3)
    X, _ = gaussian_blobs(n, 54)
    theirs = IsoKernel(method="anne", n_estimators=T, max_samples=256, random_state=1).fit(X)
    ours = built(IsolationFeatures(T, 256, pool_size=n, seed=1), X)
    frame = frame_of(X)
    ours.to_csr(frame[:1])

    calls = {"ours": partial(ours.to_csr, frame), "ikpykit": partial(theirs.transform, X)}
    runs = repeated(repeats, partial(calls_of, calls))
    middle, least, most = ratio(runs, "ikpykit", "ours", "all")
    report.note(
        f"`to_csr` is compared with ikpykit's transform on {n} rows of 54 features, with psi = "
        f"256, t = {T}, and a pool of all rows. The rates are "
        f"{n / median(runs, 'ours', 'all'):.0f} rows/s and "
        f"{n / median(runs, 'ikpykit', 'all'):.0f} rows/s. `to_csr` is {middle:.1f} times as fast "
        f"({least:.1f} - {most:.1f})."
    )


def crossover(data: DataFolder, report: Report, quick: bool, device: str = "cpu") -> None:
    """Compare the time of the Voronoi map on CPU and GPU, by batch, psi and d."""
    xp = cuda.device_namespace(device)
    if xp is None:
        report.note("The times of a GPU need the option --device cuda.")
        return
    batches = (1, 64) if quick else (1, 16, 256, 4096, 10_000)
    grid = [(64, 16), (256, 54)] if quick else [(64, 16), (1024, 16), (64, 128), (1024, 128)]
    repeats = 1 if quick else 3
    name = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)["name"].decode()
    rows = []
    for psi, d in grid:
        progress(f"crossover: psi = {psi}, d = {d}")
        rng = np.random.default_rng(0)
        pool = max(1024, 8 * psi)
        features = built(
            IsolationFeatures(T, psi, pool_size=pool, seed=1), rng.normal(size=(pool, d))
        )
        compiled = features._ready()
        X = rng.normal(size=(max(batches), d))
        compiled.transform_on(X[:1], xp)
        for n in batches:
            calls = {
                "processor": partial(compiled.transform_rows, X[:n]),
                "device": partial(compiled.transform_on, X[:n], xp),
            }
            runs = repeated(repeats, partial(calls_of, calls))
            times = [1e3 * median(runs, peer, "all") for peer in ("processor", "device")]
            faster = "device" if times[1] < times[0] else "processor"
            rows.append(
                (psi, d, n, *(f"{t:.2f}" for t in times), f"{times[0] / times[1]:.2f}", faster)
            )
    report.note(
        f"Time of the Voronoi map on a GPU ({name}) and on one core of a CPU with numba kernels. t "
        f"= {T}, the pool has 8 psi points (at least 1024), and the data are normal. Times are "
        f"medians of {repeats} runs in milliseconds per batch, including copies to and from the "
        "GPU. The paper's map on a GPU is 23 (url) to 4,000 times (ijcnn1) as fast as its map on "
        "a CPU (Table 6 of Ting et al. 2021)."
    )
    report.table(("psi", "d", "batch", "processor, ms", "device, ms", "ratio", "faster"), rows)
