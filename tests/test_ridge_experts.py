"""Tests of ridge experts: dense algebra, invariance, wild values, state."""

import math

import numpy as np
import pytest
from common import as_kernels, ordered_kernel, refused, restored
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import regression as naive
from scipy import stats

from river_mondrian.learners.regression import designs, ridges, solving
from river_mondrian.learners.regression import records as rec
from river_mondrian.learners.regression.ridges import RidgeExperts
from river_mondrian.records import Array, Float64s

predict, learn, solve_all, measure = as_kernels(
    ridges.predict, ridges.learn, solving.solve_all, solving.measure, decorator=ordered_kernel
)
HELPERS = designs.examine, designs.examine_wave, designs.note_units, designs.draw_wave
examine, examine_wave, note_units, draw_wave = as_kernels(*HELPERS, decorator=ordered_kernel)


# Arrays that define the columns of a design.
OF_COLUMNS = "centres rates firsts seconds knots means factors arms arm_inputs arm_factors phases"


def new(n_inputs, room=0, **options):
    own = RidgeExperts()
    own.reserve(max(room, n_inputs), n_inputs, np.zeros(rec.N_RIDGES), **options)
    return own


def run(own, X, y, weights=None, sizes=None):
    """Predict and learn each sample; return the predictions."""
    n = len(y)
    weights = np.ones(n) if weights is None else weights
    sizes, found = np.zeros(n) if sizes is None else sizes, np.empty((n, rec.N_RIDGES))
    samples = zip(np.ascontiguousarray(X), y.tolist(), weights, sizes, strict=True)
    for i, (x, *labels) in enumerate(samples):
        predict(own.record, Float64s.of(x))
        found[i] = own.memory.arrays["predicted"]
        learn(own.record, Float64s.of(x), *labels)
    return found


def samples(seed, n, d, noise=0.3):
    """Draw inputs, and targets that are smooth functions of the inputs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = 3.0 * X[:, 0] + np.sin(2.0 * X[:, 1]) + X[:, 0] * X[:, 1] + noise * rng.normal(size=n)
    return X, y


def design_of(own):
    i = own.record.active
    record = own.designs[i]
    found = {name: own.learned[f"{name}[{i}]"].ravel().tolist() for name in OF_COLUMNS.split()}
    names = ("n_columns", "n_linear", "n_additive", "shift", "low", "unit", "n_inputs")
    return record, found | {name: getattr(record, name) for name in names}


def rows_of(design, X):
    return np.array(
        [naive.column_values(design, x.tolist(), solving.LARGEST, rec.N_ARMS) for x in X]
    )


@pytest.mark.parametrize("n", [5, 13, 30, 115])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_weights_are_those_of_dense_least_squares(n, missing):
    """All rows are kept, so it does not matter when columns were chosen."""
    rng = np.random.default_rng(n)
    X, y = samples(n, n, 4)
    X[rng.random(X.shape) < missing] = np.nan
    weights, sizes = rng.integers(1, 3, n).astype(float), rng.normal(size=n)
    own = new(4, room=6)
    run(own, X, y, weights, sizes)
    # No new columns are pending.
    assert own.record.stage == rec.IDLE
    # No target is clipped, because none is far from its prediction or from the other targets.
    record, design = design_of(own)
    F, ages = rows_of(design, X), np.arange(n)[::-1]
    targets = np.array([y - design["shift"]] * rec.N_SOLVED)
    v = (y - design["low"]) / design["unit"]
    targets[rec.N_PLAIN : rec.N_RIDGES] = np.sign(v) * np.log1p(np.abs(v))
    targets[rec.SIZES] = sizes
    solve_all(own.record, own.designs[own.record.active])
    found = {}
    for k in (*solving.ORDER, rec.LOG_WAVES):
        width, prior = record.width_of(k), solving.PRIORS[k]
        penalties = np.full(width, solving.PENALTIES[k])
        penalties[design["n_additive"] :] = solving.WAVE_PENALTIES[k]
        penalties[0] = solving.OF_INTERCEPT
        start = found[prior][:width] if prior >= 0 else np.zeros(width)
        by = weights * rec.FORGETTING[rec.SUMS[k]] ** ages
        found[k] = naive.ridge_weights(F[:, :width], targets[k], by, penalties, start)
        fitted, expected = (
            F[:, :width] @ one for one in (own.learned["solutions"][k, :width], found[k])
        )
        np.testing.assert_allclose(fitted, expected, rtol=1e-7, atol=1e-7 * np.ptp(fitted))
    # Predictions use the same weights.
    x = np.array([0.3, -1.0, 0.0, 2.0, np.nan, np.nan])
    predict(own.record, Float64s.of(x))
    row = rows_of(design, x[None, :4])[0]
    plain = [design["shift"] + row[: len(found[k])] @ found[k] for k in range(rec.N_PLAIN)]
    predicted = own.memory.arrays["predicted"]
    np.testing.assert_allclose(predicted[: rec.N_PLAIN], plain, rtol=1e-6, atol=1e-6)
    log = min(abs(row @ found[rec.LOG_WAVES]), record.most) * np.sign(row @ found[rec.LOG_WAVES])
    back = design["low"] + design["unit"] * np.sign(log) * np.expm1(abs(log))
    assert predicted[rec.LOG_WAVES] == pytest.approx(back, rel=1e-6)
    assert own.record.size == pytest.approx(
        row[: len(found[rec.SIZES])] @ found[rec.SIZES], abs=1e-6
    )


def test_inputs_are_measured_by_quantiles():
    X, y = samples(0, 200, 3)
    X[:, 2] = np.round(X[:, 2])
    own = new(3)
    run(own, X, y)
    record, i = own.record, 1 - own.record.active
    record.n_before, record.kept_before = record.n_samples, record.n_kept
    # The recent rows equal the rows kept from the whole stream.
    both = np.concatenate([X, X])
    for j in range(3):
        measure(record, own.designs[i], j)
        low, lower, middle, upper, high = np.quantile(both[:, j], (0.02, 0.25, 0.5, 0.75, 0.98))
        unit = max((upper - lower) / solving.OF_QUARTILES, (high - low) / solving.OF_TAILS)
        assert own.learned[f"centres[{i}]"][j] == pytest.approx(middle, abs=1e-12)
        assert own.learned[f"rates[{i}]"][j] == pytest.approx(1.0 / unit)
        bends = np.quantile(both[:, j], np.arange(1, rec.N_BENDS + 1) / (rec.N_BENDS + 1))
        found = own.learned[f"bends[{i}]"][j]
        np.testing.assert_allclose(found, (bends - middle) / unit, atol=1e-9)


def test_a_column_counts_by_what_it_explains():
    X, y = samples(1, 100, 3)
    own = new(3)
    run(own, X, y)
    record, i = own.record, own.record.active
    record.n_before, record.kept_before = record.n_samples, record.n_kept
    both = np.concatenate([X, X[::-1]])
    own.learned["errors"][:200] = errors = np.random.default_rng(2).normal(size=200)
    centres, rates = (own.learned[f"{name}[{i}]"] for name in ("centres", "rates"))
    units = np.clip((both - centres) * rates, -solving.LARGEST, solving.LARGEST)
    candidate = Array.over(rec.Candidate, np.zeros(rec.Candidate.SIZE, np.uint8))[0]
    columns = [(0, rec.ITSELF, 0.0), (1, rec.BEND, 0.4), (2, rec.BEND, -1.0), (0, 2, 0.0)]
    for first, second, knot in columns:
        candidate.first, candidate.second, candidate.knot = first, second, knot
        examine(record, own.designs[i], candidate)
        h = units[:, first]
        if second == rec.BEND:
            h = np.maximum(h - knot, 0.0)
        elif second >= 0:
            h = h * units[:, second]
        z = units[:, first] if second == rec.BEND else None
        found = candidate.mean, candidate.factor, candidate.score
        assert found == pytest.approx((h.mean(), 1.0 / h.std(), naive.explained(h, z, errors)))
    note_units(record, own.designs[i])
    for _ in range(5):
        draw_wave(record, own.designs[i], rec.N_WAVES)
        examine_wave(record, own.designs[i], rec.N_WAVES, candidate)
        _, design = design_of(own)
        arms = slice(
            rec.N_ARMS * rec.N_WAVES, rec.N_ARMS * rec.N_WAVES + design["arms"][rec.N_WAVES]
        )
        turns = units[:, design["arm_inputs"][arms]] @ design["arm_factors"][arms]
        h = np.array([naive.wave(t) for t in (turns + design["phases"][rec.N_WAVES]).tolist()])
        assert candidate.mean == pytest.approx(h.mean(), abs=1e-9)
        assert candidate.score == pytest.approx(naive.explained(h, None, errors), rel=1e-6)


def test_inputs_of_waves_are_drawn_by_what_they_explain(seed):
    X, y = samples(seed, 40, 3)
    own = new(20)
    run(own, np.hstack([X] * 7)[:, :20], y)
    i = own.record.active
    interest = np.random.default_rng(seed).random(20)
    own.learned[f"interest[{i}]"][:] = interest
    own.record.draws = seed
    counts = np.zeros(20)
    for _ in range(3000):
        draw_wave(own.record, own.designs[i], rec.N_WAVES)
        n = own.learned[f"arms[{i}]"][rec.N_WAVES]
        np.add.at(counts, own.learned[f"arm_inputs[{i}]"][rec.N_WAVES][:n], 1.0)
    share = designs.BY_INTEREST * interest / interest.sum() + (1.0 - designs.BY_INTEREST) / 20
    assert stats.chisquare(counts, counts.sum() * share).pvalue > 1e-4


@pytest.mark.parametrize("power", [-200, 60, 200])
def test_units_do_not_matter(power):
    X, y = samples(3, 150, 3)
    plain, unit = run(new(3), X, y), 2.0**power
    np.testing.assert_array_equal(run(new(3), X * unit, y), plain)
    np.testing.assert_allclose(run(new(3), X, y * unit) / unit, plain, rtol=1e-9, atol=1e-9)


WILD_INPUTS = st.sampled_from([0.0, 1.0, -2.5, 1e120, -1e300, math.nan])


WILD_TARGETS = st.sampled_from([0.0, 1.0, -1e120, 1e120, 1e-120])


WEIGHTS = st.sampled_from([1.0, 1e-9, 1e6])


@given(st.lists(st.tuples(st.tuples(WILD_INPUTS, WILD_INPUTS), WILD_TARGETS, WEIGHTS), max_size=40))
@settings(max_examples=40)
def test_nothing_wild_ends_them(given_):
    own = new(2)
    for inputs, target, weight in given_:
        x = Float64s.of(np.array(inputs))
        predict(own.record, x)
        assert np.isfinite([*own.memory.arrays["predicted"], own.record.size]).all()
        learn(own.record, x, target, weight, 0.5)


def test_a_constant_target_is_predicted_exactly():
    X, _ = samples(8, 60, 2)
    found = run(new(2), X, np.full(60, 0.1))
    np.testing.assert_array_equal(found[1:, : rec.N_PLAIN], 0.1)


def test_inputs_that_are_no_numbers_are_left_out():
    X, y = samples(9, 120, 3)
    codes = np.random.default_rng(0).normal(size=(120, 1)) * 1e15
    plain = run(new(3, room=4), np.hstack([X, np.full((120, 1), np.nan)]), y)
    found = run(new(4, categories=[3]), np.hstack([X, codes]), y)
    np.testing.assert_allclose(found[:, : rec.WAVES], plain[:, : rec.WAVES])


def test_new_inputs_may_have_been_zero():
    """New inputs count as if they had been 0 from the start."""
    X, y = samples(10, 100, 2)
    whole, wider = new(3), new(2)
    run(whole, np.hstack([X, np.zeros((100, 1))]), y)
    run(wider, X, y)
    wider.reserve(3, 3, np.zeros(rec.N_RIDGES))
    wider.begin_at_zero(np.array([2]))
    for name in ("kept", "latest"):
        # Reserved inputs without values are missing.
        found, expected = (own.learned[name][:, rec.FIRST_INPUT :] for own in (wider, whole))
        np.testing.assert_array_equal(found[:, 2], 0.0)
        np.testing.assert_array_equal(np.nan_to_num(found), np.nan_to_num(expected))


@pytest.mark.parametrize("at", [1, 20, 70, 260, 513])
def test_copies_and_wider_ones_go_on_as_the_original(at):
    X, y = samples(11, at + 150, 3)
    own = new(3)
    run(own, X[:at], y[:at])
    copy, wide = (restored(own) for _ in range(2))
    copy.reserve(3, 3, np.zeros(rec.N_RIDGES))
    wide.reserve(7, 3, np.zeros(rec.N_RIDGES))
    assert wide.nbytes > own.nbytes
    rest = run(own, X[at:], y[at:])
    np.testing.assert_array_equal(run(copy, X[at:], y[at:]), rest)
    wider = np.hstack([X[at:], np.full((150, 4), np.nan)])
    np.testing.assert_array_equal(run(wide, wider, y[at:]), rest)


def test_rows_are_thinned_where_there_is_no_room():
    X, y = samples(12, 2600, 3)
    own = new(3)
    run(own, X, y)
    assert (own.record.stride, own.record.n_kept) == (4, 2600 // 4)
    np.testing.assert_array_equal(own.learned["kept"][:650, rec.FIRST_INPUT :], X[::4])
    # With many more inputs, fewer rows fit into memory.
    own.reserve(600, 3, np.zeros(rec.N_RIDGES))
    n = own.record.n_kept
    assert n <= 256
    kept = own.learned["kept"][:n, rec.FIRST_INPUT : rec.FIRST_INPUT + 3]
    np.testing.assert_array_equal(kept, X[:: own.record.stride][:n])


DAMAGES = {"firsts[0]": 9, "seconds[1]": -4, "arms[0]": rec.N_ARMS + 1, "arm_inputs[1]": -1}


DAMAGES |= {"active": 2, "n_kept": 5000, "stride": 0, "n_inputs": 4, "n_columns": 10_000}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_numbers_are_refused(name):
    own = new(3)
    if name in own.learned:
        own.learned[name][1] = DAMAGES[name]
    else:
        setattr(own.designs[0] if name == "n_columns" else own.record, name, DAMAGES[name])
    refused(own, name.partition("[")[0])
