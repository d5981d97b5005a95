"""Tests of plots: content, and visibility on white and dark backgrounds."""

import itertools
import math

import matplotlib as mpl
import numpy as np
import pytest
from common import fed, raises
from naive import stit
from river import base, datasets, drift, evaluate, metrics, naive_bayes, utils
from river.datasets import synth

import river_mondrian as rm
from river_mondrian.plot import canvas

mpl.use("Agg")

from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def bananas(model, target=None, n=200):
    """Let a model learn points of two features, with classes, targets or neither."""
    pairs = datasets.Bananas().take(n)
    if isinstance(model, base.AnomalyDetector):
        return fed(model, [x for x, _ in pairs])
    return fed(model, [(x, target(x) if target else y) for x, y in pairs])


def classifier():
    return bananas(rm.MondrianForestClassifier(2, seed=1))


def regressor():
    return bananas(rm.MondrianForestRegressor(2, seed=1), lambda x: x["1"] * x["2"])


def names(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


# Trees.


def ticks(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def n_dots(collections):
    return sum(len(dots.get_offsets()) for dots in collections)


def test_a_whole_tree_has_a_dot_for_each_leaf():
    adaptive = bananas(rm.AdaptiveMondrianForestClassifier(3, seed=1))
    for model in (classifier(), regressor(), adaptive):
        frame, ax = model.to_dataframe(0), model.draw(0)
        lines, leaves = ax.collections[0].get_segments(), int(frame.is_leaf.sum())
        assert n_dots(ax.collections[1:]) == leaves
        # There is a vertical line for each node, and a horizontal line for each inner node.
        assert len(lines) == len(frame) + leaves - 1
        forks = {round(t, 9) for t in frame.time[~frame.is_leaf]}
        assert {round(a[1], 9) for a, b in lines if a[1] == b[1] and a[0] != b[0]} == forks
        assert ax.get_title() == f"tree 0: {leaves} leaves"
        assert not ax.texts and not ax.patches


@pytest.mark.parametrize("depth", [0, 1, 3, 5])
def test_the_top_of_a_tree_tells_what_is_below(depth):
    model = classifier()
    frame, ax = model.to_dataframe(1), rm.plot.tree(model, 1, max_depth=depth)
    below = frame[(frame.depth == depth) & ~frame.is_leaf]
    assert len(ax.patches) == len(below)
    texts = [text.get_text().replace("\n", " ") for text in ax.texts]
    # The frame is in preorder, so the nodes below a node follow it.
    found = []
    for i in below.index:
        end = next((j for j in range(i + 1, len(frame)) if frame.depth[j] <= depth), len(frame))
        found.append(f"{frame[i:end].is_leaf.sum()} leaves, {frame.n_samples[i]} samples")
    assert sorted(text for text in texts if "leaves" in text) == sorted(found)
    assert n_dots(ax.collections[1:]) == (frame.is_leaf & (frame.depth <= depth)).sum()
    inner = frame[(frame.depth < depth) & ~frame.is_leaf]
    cuts = {f"{row.feature} <= {row.threshold:.3g}" for row in inner.itertuples()}
    written = {text for text in texts if "<=" in text}
    assert written <= cuts and bool(written) == bool(cuts)
    levels = f"{depth} of {frame.depth.max()} levels shown"
    assert ax.get_title() == f"tree 1: {frame.is_leaf.sum()} leaves, {levels}"


def test_leaves_have_the_colour_and_the_name_of_their_class():
    model = classifier()
    ax = rm.plot.tree(model)
    counts = model.to_dataframe(0)
    counts = counts[counts.is_leaf][[f"count_{label}" for label in model.classes]].to_numpy()
    assert names(ax) == [str(label) for label in model.classes]
    for k, dots in enumerate(ax.collections[1:]):
        assert len(dots.get_offsets()) == (counts.argmax(axis=1) == k).sum()
        assert mpl.colors.same_color(dots.get_facecolors()[0], canvas.COLORS[k])


def test_a_bar_tells_the_means_of_a_regressor():
    model = regressor()
    means = model.to_dataframe(0)["mean"]
    ax = rm.plot.tree(model)
    bar = ax.figure.axes[1]
    assert bar.get_ylabel() == "mean" and not names(ax)
    assert bar.get_ylim() == pytest.approx((means.min(), means.max()))


def test_detectors_have_trees_without_classes():
    ax = rm.plot.tree(bananas(rm.RandomCutForest(2, seed=1), n=50), max_depth=2)
    assert ax.get_legend() is None and len(ax.figure.axes) == 1


def test_many_classes_make_no_endless_legend():
    samples = [({"a": i * 37 % 41, "b": i * 17 % 43}, i % 20) for i in range(40)]
    ax = fed(rm.MondrianForestClassifier(1, seed=1), samples).draw()
    assert len(names(ax)) == canvas.MOST_NAMES
    assert ax.get_legend().get_title().get_text() == "8 more are not named"


def test_names_of_users_are_shown_as_they_are():
    labels = ["_hidden", "$50 to $100", "in $"]
    stream = [({"$a$": float(i), "_b": float(i % 3)}, labels[i % 3]) for i in range(60)]
    model = fed(rm.MondrianForestClassifier(3, seed=1), stream)
    ax = rm.plot.partition(model)
    assert [text.strip().replace("\\$", "$") for text in names(ax)] == labels
    curves = rm.plot.progressive({name: [(1, 0.5), (2, 0.6)] for name in labels})
    assert len(names(curves)) == 3
    for one in (ax, curves, rm.plot.tree(model), rm.plot.importances(model.feature_importances)):
        one.figure.canvas.draw()


# Partitions.


@pytest.mark.parametrize("time", [0.0, 1.0, math.inf])
def test_cells_are_those_of_the_time_and_tile_the_plane(time):
    for model in (classifier(), regressor()):
        frame = model.to_dataframe(0)
        ax = rm.plot.partition(model, time=time)
        cells = [patch for patch in ax.patches if patch.get_alpha() is not None]
        assert len(cells) == ((frame.time <= time) & ~frame.is_leaf).sum() + 1
        assert len(ax.patches) == 3 * len(cells)
        areas = [stit.area(list(map(tuple, cell.get_xy()[:-1].tolist()))) for cell in cells]
        places = np.array([list(x.values()) for x, _ in datasets.Bananas().take(200)])
        # Samples are stored in single precision.
        assert sum(areas) == pytest.approx(np.prod(1.04 * np.ptp(places, axis=0)), rel=1e-6)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("1", "2")


# Curves.


def test_curves_are_rivers_progressive_scores():
    samples = list(datasets.Phishing().take(120))
    made = {"forest": rm.MondrianForestClassifier, "NB": naive_bayes.GaussianNB}

    def run(name, metric):
        return evaluate.iter_progressive_val_score(samples, made[name](), metric, step=30)

    ax = rm.plot.progressive(
        {name: run(name, metrics.Accuracy()) for name in made}, drifts=[60, 90]
    )
    for line, name in zip(ax.lines, made, strict=False):
        scores = [state["Accuracy"].get() for state in run(name, metrics.Accuracy())]
        if name == "NB":
            assert line.get_ydata()[-1] == scores[-1]
        assert line.get_xdata().tolist() == [30, 60, 90, 120]
        assert line.get_label() == name
    assert [line.get_xdata()[0] for line in ax.lines[2:]] == [60, 90]
    assert names(ax) == ["forest", "NB", "drift"]
    assert ax.get_ylabel() == "Accuracy"
    latest = utils.Rolling(metrics.Accuracy, window_size=50)
    ax = rm.plot.progressive({"NB": run("NB", latest)})
    assert ax.get_ylabel() == "Accuracy of the latest 50"
    both = metrics.Accuracy() + metrics.CohenKappa()
    ax = rm.plot.progressive({"NB": run("NB", both)}, metric="CohenKappa")
    assert ax.get_ylabel() == "CohenKappa"
    raises(ValueError, "choose one by metric", lambda: rm.plot.progressive({"NB": run("NB", both)}))
    with pytest.raises(ValueError, match=r"give the iterator .*, not a list"):
        rm.plot.progressive({"NB": list(run("NB", metrics.Accuracy()))})


def test_drifts_of_a_model_are_read_after_its_run():
    model = rm.AdaptiveMondrianForestClassifier(10, drift_detector=drift.binary.HDDMA(), seed=1)
    before = synth.Sine(classification_function=0, seed=1).take(1000)
    after = synth.Sine(classification_function=1, seed=2).take(400)
    samples = itertools.chain(before, after)
    run = evaluate.iter_progressive_val_score(samples, model, metrics.Accuracy(), step=100)
    ax = rm.plot.progressive({"adaptive": run}, drifts=model)
    assert model.drift_log
    assert [line.get_xdata()[0] for line in ax.lines[1:]] == [n for n, _ in model.drift_log]


def test_drifts_are_bars_from_their_beginning_to_the_alarm():
    early = rm.Drift(300, 250, ("inputs",), {"a": 9.0}, {"a": "values"}, {"a": 260}, {}, True)
    late = rm.Drift(900, 850, ("labels", "relation"), {}, {}, {}, {"yes": 20.0, "$x": 12.0}, True)
    ax = rm.plot.drifts([early, late])
    assert ticks(ax) == ["label yes", "relation", r"label \$x", "a"]
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    assert ends == [(850, 900)] * 3 + [(260, 300)]
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == sorted(heights, reverse=True)
    assert len({bar.get_facecolor() for bar in ax.patches}) == 3
    monitor = rm.DriftMonitor(seed=1)
    assert ticks(rm.plot.drifts(monitor)) == []
    ax = rm.plot.progressive({"model": [(1, 0.5), (1000, 0.6)]}, drifts=[early, late])
    assert [line.get_xdata()[0] for line in ax.lines[1:]] == [300, 900]
    assert len(rm.plot.progressive({"model": [(1, 0.5)]}, drifts=monitor).lines) == 1
    for wrong in (3, [1, 2], "text"):
        raises(TypeError, "must be a DriftMonitor", lambda wrong=wrong: rm.plot.drifts(wrong))


def test_curves_of_pairs():
    ax = rm.plot.progressive({"a": [(1, 0.5), (2, 0.75)], "b": iter([(1, 0.25)])})
    drawn = [line.get_xydata().tolist() for line in ax.lines]
    assert drawn == [[[1, 0.5], [2, 0.75]], [[1, 0.25]]]


# Intervals.


def test_intervals_are_those_of_the_laws():
    model = rm.MondrianForestRegressor(3, seed=1)
    targets, laws = [], []
    for x, y in datasets.TrumpApproval().take(60):
        targets.append(y)
        laws.append(model.predict_one(x, with_dist=True) if model.n_samples else None)
        model.learn_one(x, y)
    with mpl.rc_context({"text.color": "white"}):
        ax = rm.plot.intervals(targets, laws, levels=(0.5, 0.9))
    for band, level in zip(ax.collections, (0.9, 0.5), strict=True):
        drawn = band.get_paths()[0].vertices
        ends = np.array([law.interval(level) for law in laws[1:]])
        inside = np.mean((ends[:, 0] <= targets[1:]) & (targets[1:] <= ends[:, 1]))
        assert band.get_label() == f"{level:.0%} interval, {inside:.1%} inside"
        reach = [drawn[:, 0].min(), drawn[:, 1].min(), drawn[:, 1].max()]
        assert reach == pytest.approx([2, ends[:, 0].min(), ends[:, 1].max()])
    target, predicted = ax.lines
    assert target.get_color() == "white"
    assert target.get_ydata().tolist() == targets
    np.testing.assert_array_equal(predicted.get_ydata(), [math.nan, *(d.mean for d in laws[1:])])
    ax = rm.plot.intervals(targets, laws, levels=())
    assert not ax.collections
    assert [line.get_label() for line in ax.lines] == ["target", "predicted"]


# Importances.


def test_bars_are_importances():
    model = fed(rm.MondrianForestClassifier(2, seed=1), datasets.Phishing().take(200))
    found = model.feature_importances
    ax = rm.plot.importances(model, most=4)
    ranked = sorted(found, key=lambda name: -abs(found[name]))
    assert ticks(ax) == [*ranked[:4], f"{len(found) - 4} others"]
    drawn = [bar.get_width() for bar in ax.patches]
    assert drawn[:4] == [found[name] for name in ranked[:4]]
    assert sum(drawn) == pytest.approx(sum(found.values()))
    assert ax.yaxis_inverted()


def test_bars_of_an_explanation_have_signs():
    ax = rm.plot.importances({"a": -2.0, "b": 1.0, 3: 0.5}, most=3)
    assert ticks(ax) == ["a", "b", "3"]
    for bar, color in zip(ax.patches, canvas.COLORS[1::-1], strict=False):
        assert mpl.colors.same_color(bar.get_facecolor(), color)
    assert "adds" in ax.get_xlabel()


@pytest.mark.parametrize("kind", ["classes", "numbers", "scores"])
def test_an_explanation_is_drawn_from_the_baseline_to_the_prediction(kind):
    detector = bananas(rm.RandomCutForest(2, seed=1), n=60)
    model = {"classes": classifier, "numbers": regressor, "scores": lambda: detector}[kind]()
    x = {"1": 0.5, "2": -1.25}
    ax = rm.plot.explanation(model, x)
    found, baseline = model.explain_one(x), getattr(model, "baseline", 0.0)
    expected = model.score_one(x) if kind == "scores" else model.predict_one(x)
    if kind == "classes":
        found, baseline = found[expected], baseline[expected]
        expected = model.predict_proba_one(x)[expected]
        other = rm.plot.explanation(model, x, label=not model.predict_one(x))
        assert other.lines[0].get_xdata()[1] == pytest.approx(1.0 - expected)
    assert [x for line in ax.lines for x in line.get_xdata()] == pytest.approx([baseline, expected])
    widths = sorted(found.values(), key=lambda added: -abs(added))
    assert [bar.get_width() for bar in ax.patches] == widths
    starts = [bar.get_x() for bar in ax.patches]
    assert starts == pytest.approx([baseline, baseline + widths[0]])
    first, *inner, last = ticks(ax)
    assert (first[:8], last[:10]) == ("baseline", "prediction")
    assert sorted(inner) == ["1 = 0.5", "2 = -1.25"]
    assert len(rm.plot.explanation(model, x, most=1).patches) == 2


def test_nothing_of_an_explanation_is_cut():
    """Long names, names that look like formulas, and labels at the ends are drawn completely."""
    model = rm.MondrianForestRegressor(2, seed=1)
    long, a = "a name of very many words " * 5, "$1$ & $x_1^2$"
    for x, _ in datasets.Bananas().take(60):
        x = {a: x["1"], f"_{long}": x["2"], "color\nof": long if x["1"] > 0 else "red"}
        model.learn_one(x, 1e6 * x[a])
    ax = rm.plot.explanation(model, x)
    figure = ax.figure
    figure.draw_without_rendering()
    for axis in (ax.yaxis, ax.child_axes[0].yaxis, ax.xaxis):
        for label in axis.get_ticklabels():
            box, text = label.get_window_extent(), label.get_text()
            assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and "e+" not in text, text
    assert ax.get_window_extent().width > 0.25 * figure.bbox.width
    assert any(text.startswith(r"\$1\$ & \$x_1^2\$ = ") for text in ticks(ax))
    low, high = ax.get_xlim()
    ends = ax.lines[0].get_xdata()
    assert low < min(ends) and max(ends) < high


# Weights.


def history_of(model, stream):
    found = [(0, model.expert_weights)]
    for i, (x, y) in enumerate(stream):
        model.learn_one(x, y)
        if i % 20 == 0:
            found.append((model.n_samples, model.expert_weights))
    return found


def test_areas_are_weights_added_up_by_kind():
    model = rm.AdaptiveMondrianForestClassifier(3, seed=1)
    history = history_of(model, synth.Sine(seed=1).take(200))
    ax = rm.plot.weights(history)
    kinds = ["trees of all samples", "trees of all and of recent samples", "lines", "neighbors"]
    assert names(ax) == [*kinds, "fixed share of the others"]
    n, last = history[-1]
    of_all = sum(weight for name, weight in last.items() if name.endswith(", trees of all samples"))
    areas = [area.get_paths()[0].vertices for area in ax.collections]
    tops = [area[area[:, 0] == n][:, 1].max() for area in areas]
    assert (tops[0], tops[-1]) == pytest.approx((of_all, sum(last.values())))
    chosen = rm.plot.weights(history, groups=dict.fromkeys(last, "all") | {"naive Bayes": None})
    assert names(chosen) == ["all"]


def test_negative_weights_are_lines():
    model = rm.AdaptiveMondrianForestRegressor(3, autoregressive=True, seed=1)
    history = history_of(model, datasets.TrumpApproval().take(120))
    assert min(min(weights.values()) for _, weights in history[1:]) < 0.0
    ax = rm.plot.weights(history)
    assert not ax.collections
    kinds = {"lines", "bends", "waves", "trees", "trees of residuals", "trees of errors"}
    kinds |= {"neighbors"}
    assert set(names(ax)) == kinds | {"first mixture", "series"}
    assert sum(line.get_ydata()[-1] for line in ax.lines[:-1]) == pytest.approx(1.0)


# Reliability.


def test_reliability_by_hand():
    predictions = [{}, {"a": 0.9, "b": 0.1}, {"a": 1.0, "b": 0.0}, {"a": 0.4, "b": 0.6}]
    ax = rm.plot.reliability(predictions, ["a", "a", "b", "b"], n_bins=2)
    line = ax.lines[1]
    # Below 1/2, one of .1, 0 and .4 belongs to the true label; above 1/2, two of .9, 1 and .6 do.
    np.testing.assert_allclose(line.get_xydata(), [[1 / 6, 1 / 3], [5 / 6, 2 / 3]])
    assert names(ax) == [f"calibration error {1 / 6:.3f}"]
    sizes = ax.collections[0].get_sizes()
    assert sizes[0] == sizes[1]
    several = rm.plot.reliability({"one": predictions, "two": predictions}, ["a", "a", "b", "b"])
    assert [name.partition(":")[0] for name in names(several)] == ["one", "two"]


# Scores.


def test_scores_of_any_detector():
    scores = [0.1, 0.2, 0.9, 0.95, 0.1, 0.3, 0.2, 0.1, 0.2, 0.97]
    odd = [i in (2, 9) for i in range(10)]
    ax = rm.plot.scores(scores, 0.75, odd)
    assert ax.lines[0].get_xydata().tolist() == [[i + 1, s] for i, s in enumerate(scores)]
    assert ax.lines[2].get_xdata().tolist() == [3, 4, 10]
    # Only the first of consecutive marked samples has a label.
    assert [text.get_text() for text in ax.texts] == ["3", "10"]
    assert ax.lines[3].get_xdata().tolist() == [3, 10]


@pytest.mark.parametrize("noise", [1e-3, 1.0])
def test_labels_of_scores_do_not_overlap(noise):
    rng = np.random.default_rng(1)
    crowd = rm.plot.scores(np.tile([0.0, 1.0], 600) + noise * rng.random(1200), 0.5)
    crowd.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in crowd.texts]
    assert len(boxes) > 9
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    highest = np.argmax(crowd.lines[0].get_ydata()) + 1
    assert str(highest) in [text.get_text() for text in crowd.texts]


@pytest.mark.parametrize(
    "make", [lambda: rm.RandomCutForest(3, seed=1), rm.NearestNeighborDetector]
)
def test_scores_of_a_detector_are_its_own(make):
    model = bananas(make(), n=100)
    for ax in (rm.plot.scores(model, 0.9), model.draw_scores(0.9)):
        assert ax.lines[0].get_ydata().tolist() == model.recent_scores
        assert ax.lines[0].get_xdata()[-1] == model.n_samples


# Maps.


def test_maps_show_what_models_say_at_each_place():
    rows = np.random.default_rng(1).normal(size=(200, 2)).tolist()
    forest = fed(rm.DensityForest(5, seed=1), [{"a": a, "b": b} for a, b in rows])
    samples = [{"a": a, "b": b, "c": 0.5} for a, b in rows]
    detector = fed(rm.RandomCutForest(5, seed=1), samples)
    ranges = {"b": (-1.0, 2.0), "a": (0.0, 1.0)}
    density = rm.plot.density_map(forest, ranges, n=4)
    drawn = density.collections[0].get_array().reshape(4, 4)
    for i, a in enumerate(np.linspace(0.0, 1.0, 4).tolist()):
        for j, b in enumerate(np.linspace(-1.0, 2.0, 4).tolist()):
            assert drawn[i, j] == forest.density_one({"a": a, "b": b})
    assert (density.get_xlabel(), density.get_ylabel()) == ("b", "a")
    assert density.figure.axes[1].get_ylabel() == "density"
    score = rm.plot.score_map(detector, ranges, at={"c": 0.5}, n=3)
    drawn = score.collections[0].get_array().reshape(3, 3)
    assert drawn[2, 0] == detector.score_one({"a": 1.0, "b": -1.0, "c": 0.5})


# Axes and refused arguments.


def drawings():
    """Return a call of each function, by its name."""
    model, detector = classifier(), fed(rm.RandomCutForest(2, seed=1), [{"a": 1.0}])
    X = np.arange(20.0)[:, None] / 20
    path = rm.lifetime_path(X, X[:, 0], lifetime_max=1.0, n_partitions=2, l2=0.1, seed=1)
    unit = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    return {
        "tree": lambda ax: rm.plot.tree(model, ax=ax),
        "partition": lambda ax: rm.plot.partition(model, ax=ax),
        "progressive": lambda ax: rm.plot.progressive({"a": [(1, 0.5)]}, ax=ax),
        "intervals": lambda ax: rm.plot.intervals([1.0], [None], ax=ax),
        "importances": lambda ax: rm.plot.importances({"a": 1.0}, ax=ax),
        "explanation": lambda ax: rm.plot.explanation(model, {"1": 0.5}, ax=ax),
        "weights": lambda ax: rm.plot.weights([(1, {"a": 1.0})], ax=ax),
        "reliability": lambda ax: rm.plot.reliability([{"a": 1.0}], ["a"], ax=ax),
        "scores": lambda ax: rm.plot.scores([0.5], ax=ax),
        "density_map": lambda ax: rm.plot.density_map(rm.DensityForest(2), unit, n=2, ax=ax),
        "score_map": lambda ax: rm.plot.score_map(detector, unit, n=2, ax=ax),
        "lifetimes": lambda ax: rm.plot.lifetimes(path, ax=ax),
        "drifts": lambda ax: rm.plot.drifts(rm.DriftMonitor(), ax=ax),
    }


def test_each_function_takes_axes_and_returns_them():
    calls = drawings()
    assert sorted(calls) == sorted(rm.plot.__all__)
    for name, call in calls.items():
        _, ax = plt.subplots()
        assert call(ax) is ax, name
        assert call(None) is not ax, name
        plt.close("all")


def explain(model, **arguments):
    return rm.plot.explanation(model, {"1": 0.5}, **arguments)


REFUSED = [
    (lambda: rm.plot.tree(3), TypeError, "forest whose trees can be drawn, got 3"),
    (lambda: rm.plot.tree(rm.MondrianForestClassifier()), RuntimeError, "has to learn"),
    (lambda: rm.plot.tree(classifier(), 2), ValueError, "tree must be in 0..1, got 2"),
    (lambda: rm.plot.tree(classifier(), max_depth=-1), ValueError, "max_depth must be an integer"),
    (lambda: rm.plot.tree(classifier(), ax=[1]), TypeError, "ax must be axes"),
    (lambda: rm.plot.partition(rm.DensityForest()), TypeError, "partitions that can be drawn"),
    (
        lambda: rm.plot.explanation(rm.DensityForest(), {"a": 1.0}),
        TypeError,
        "explain_one.*pipeline",
    ),
    (lambda: explain(classifier(), label="x"), ValueError, r"one of \[False, True\], got 'x'"),
    (lambda: explain(rm.MondrianForestClassifier()), ValueError, "label must be one of"),
    (lambda: explain(classifier(), most=0), ValueError, "most"),
    (lambda: rm.plot.partition(classifier(), time="now"), ValueError, "time must be a number"),
    (lambda: rm.plot.partition(rm.MondrianFeatures()), RuntimeError, "has to learn"),
    (lambda: rm.plot.progressive([1, 2]), TypeError, "curves must be a mapping"),
    (lambda: rm.plot.progressive({"a": [1, 2]}), TypeError, "curve of 'a' must hold"),
    (lambda: rm.plot.intervals([1.0], [3]), TypeError, "must be those of predict_one"),
    (lambda: rm.plot.intervals([1.0], []), ValueError, "1 targets, 0 distributions"),
    (lambda: rm.plot.importances({"a": {"b": 1.0}}), TypeError, "choose a label.s mapping"),
    (lambda: rm.plot.weights([{"a": 1.0}]), TypeError, "history must hold pairs"),
    (lambda: rm.plot.reliability([{"a": 1.0}], []), ValueError, "1 predictions but 0 labels"),
    (lambda: rm.plot.reliability(["a"], ["a"]), TypeError, "must be those of predict_proba_one"),
    (lambda: rm.plot.scores([1.0], anomalies=[]), ValueError, "1 scores but 0 anomalies"),
    (lambda: rm.plot.score_map(rm.RandomCutForest(), {"a": (0, 1)}), ValueError, "two features"),
]


@pytest.mark.parametrize("call, error, message", REFUSED)
def test_what_cannot_be_drawn_is_refused(call, error, message):
    raises(error, message, lambda: call())


def test_more_things_than_colours_differ_by_more():
    for styles in (canvas.style, canvas.marker, canvas.hatch):
        assert len({(canvas.color(k), styles(k)) for k in range(24)}) == 24
