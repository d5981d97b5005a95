"""Tests of progress bars of long calls, which must not change results."""

from __future__ import annotations

import inspect
import sys
import types

import numpy as np
import pandas as pd
import pytest
from attack.judging import some
from common import raises
from test_configurations import CONFIGURATIONS, readings

import river_mondrian as rm
from river_mondrian.__main__ import main
from river_mondrian.compiling.first_calls import WATCH
from river_mondrian.distributed import sharded

N = 2 * rm.progress.PIECE + 300
RNG = np.random.default_rng(1)
X = pd.DataFrame(RNG.random((N, 3)), columns=list("abc"))
LABELS = pd.Series(np.where(X["a"] + X["b"] > 1.0, "high", "low"))
TARGETS = pd.Series(X["a"] * X["b"] + 0.1 * RNG.normal(size=N))

NAMES = ["classifier", "regressor", "means, growing", "adaptive", "adaptive regressor", "density"]
NAMES += ["density, growing", "random cuts", "shingles", "neighbors, shingles", "ogd", "ridge"]
NAMES += ["ogd, lifetimes", "mondrian", "isolation", "binning", "fourier", "nystrom"]
MODELS = {name: CONFIGURATIONS[name] for name in NAMES}


def arguments(model, n=N, start=0):
    """Return rows for a model to learn, with labels or targets if the model needs them."""
    if "y" not in inspect.signature(model.learn_many).parameters:
        return (X[start:n],)
    return X[start:n], (LABELS if hasattr(model, "classes") else TARGETS)[start:n]


def results(model, **more):
    """Return the results of all `*_many` methods of a model for rows."""
    methods = [getattr(model, f"{name}_many") for name in readings(model, "many")]
    return [np.asarray(method(X, **more)).tolist() for method in methods]


class Bar:
    """Replacement of tqdm that records the updates."""

    made: list[Bar] = []  # noqa: RUF012
    # The number of the update at which Ctrl-C comes.
    stops_at = None

    def __init__(self, total, unit, unit_scale):
        self.total, self.steps, self.notes, self.is_closed = total, [], [], False
        self.made.append(self)

    def update(self, step):
        self.steps.append(step)
        if len(self.steps) == self.stops_at:
            raise KeyboardInterrupt

    def set_postfix_str(self, note, refresh):
        self.notes.append(note)

    def close(self):
        self.is_closed = True


@pytest.fixture
def bars(monkeypatch):
    auto = types.ModuleType("tqdm.auto")
    auto.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    monkeypatch.setattr(Bar, "made", [])
    return Bar.made


def assert_shown(bars, total, least=1):
    """Check that each bar reached its end in several steps."""
    for bar in bars:
        assert bar.is_closed and bar.total == pytest.approx(sum(bar.steps))
        assert total - 2 <= bar.total <= total and len(bar.steps) >= least
    bars.clear()


@pytest.mark.parametrize("name", some(MODELS, 2))
def test_progress_changes_no_result(name, bars):
    model, shown = MODELS[name](), MODELS[name]()
    model.learn_many(*arguments(model))
    assert not bars
    shown.learn_many(*arguments(model), progress=True)
    assert len(bars) == 1
    assert_shown(bars, N, 3)
    said = results(model)
    assert said and said == results(shown)
    assert not bars and results(model, progress=True) == said
    assert len(bars) == len(said)
    assert_shown(bars, N)


@pytest.mark.parametrize("name", some(MODELS, 2))
def test_ctrl_c_leaves_whole_pieces(name, bars, monkeypatch):
    model, same = MODELS[name](), MODELS[name]()
    monkeypatch.setattr(Bar, "stops_at", 2)
    raises(KeyboardInterrupt, None, lambda: model.learn_many(*arguments(model), progress=True))
    (bar,) = bars
    n = sum(bar.steps)
    assert 0 < n < N and bar.is_closed
    same.learn_many(*arguments(model, n))
    assert getattr(model, "n_samples", n) == getattr(same, "n_samples", n)
    assert results(model) == results(same)
    # The next call continues the work.
    for one in (model, same):
        one.learn_many(*arguments(one, n + 50, n))
    assert results(model) == results(same)


@pytest.mark.parametrize("name", ["classifier", "regressor", "ridge, window"])
def test_rows_are_forgotten_piece_by_piece(name, bars):
    model = CONFIGURATIONS[name]().clone({"window": N} if "window" in name else {})
    shown, n = model.clone(), rm.progress.PIECE + 100
    for one, more in ((model, {}), (shown, {"progress": True})):
        one.learn_many(*arguments(one))
        one.forget_many(*arguments(one, n), **more)
    assert len(bars) == 1
    assert_shown(bars, n, 2)
    assert results(shown) == results(model)


@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_shards_show_blocks(name, bars, engine, monkeypatch):
    monkeypatch.setattr(sharded, "BLOCK_ROWS", 500)
    forest = sharded.ShardedForest(MODELS[name](), 2)
    # A regressor is sharded after 4,096 rows, so these rows are learned before.
    rows = pd.concat([X, X], ignore_index=True)
    y = pd.concat([LABELS if name == "classifier" else TARGETS] * 2, ignore_index=True)
    forest.learn_many(rows, y, progress=True)
    assert len(bars) == 1
    assert_shown(bars, len(rows), 2)
    assert len(forest.describe_shards()) == 2
    said = results(forest)
    assert not bars and results(forest, progress=True) == said
    assert len(bars) == len(said)
    assert_shown(bars, N, 5)


def test_without_tqdm_there_are_lines_of_text(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(rm.progress, "EVERY_IN_A_LOG", 0.0)
    model = rm.MondrianForestClassifier(2, seed=1)
    model.learn_many(X, LABELS, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith(f"{N:,} of {N:,} rows, ") and len(lines) > 3
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(rm.progress, "EVERY", 0.0)
    model.predict_many(X, progress=True)
    shown = capsys.readouterr().err
    assert shown.count("\r\033[K") > 2 and shown.endswith("\n") and shown.count("\n") == 1
    model.predict_many(X)
    assert capsys.readouterr().err == ""


def test_a_sweep_shows_its_lifetime(bars):
    rows = X[:60].to_numpy()
    settings = {"lifetime_max": 2.0, "n_partitions": 3, "l2": 0.1, "seed": 1}
    path = rm.lifetime_path(rows, TARGETS[:60], **settings)
    assert not bars
    same = rm.lifetime_path(rows, TARGETS[:60], **settings, progress=True)
    assert bars[0].notes[-1] == f"{path.n_cells[-1]} cells"
    assert_shown(bars, 2.0)
    assert same.errors["ridge"]["train"].tolist() == path.errors["ridge"]["train"].tolist()


class Broken:
    """A stderr that has no `isatty`, and to which nothing can be written."""

    def __init__(self, error):
        self.error = error

    def write(self, text):
        raise self.error

    flush = close = lambda self: None


ERRORS = [OSError(28, "No space left"), BrokenPipeError(), ValueError("closed"), AttributeError()]


@pytest.mark.parametrize("has_bars", [True, False])
@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_output_stops_no_work(error, has_bars, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Broken(error))
    monkeypatch.setattr(rm.progress, "EVERY_IN_A_LOG", 0.0)
    if not has_bars:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    model = MODELS["classifier"]()
    model.learn_many(*arguments(model), progress=True)
    assert model.n_samples == N
    WATCH.compiles("name", None)
    with WATCH.expected(progress=True):
        WATCH.compiles("name", None)
    main(["warmup", "MondrianFeatures"])


def test_a_failing_bar_stops_no_work(bars, monkeypatch):
    def fail(self, step):
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(Bar, "update", fail)
    model = MODELS["classifier"]()
    model.learn_many(*arguments(model), progress=True)
    assert model.n_samples == N
    assert bars[0].disable


def test_programs_without_stderr_write_nothing_to_stdout(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    rm.progress.show("text")
    assert capsys.readouterr().out == ""
