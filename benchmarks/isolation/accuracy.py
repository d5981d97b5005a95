"""Accuracy of linear models on cells: the paper's figures and tables, and full sets."""

import math
import time
from functools import partial
from typing import Any

import numpy as np
from river import optim
from scipy import sparse

from ..data import Array, DataFolder, available, frame_of
from ..report import Report, progress
from . import models
from .sets import ROWS, WHOLE, Set, digits_set, load_set, two_class_sets

BLOCK = 1000  # Number of rows in the paper's blocks of a stream.
# Accuracies in the paper, in the order of PEERS.
PAPER: dict[str, tuple[float | None, ...]] = {
    "a9a": (0.84, 0.84, None, 0.84, 0.84),
    "covtype": (0.76, 0.70, None, 0.86, 0.92),
    "mnist": (0.97, 0.85, None, 0.95, 0.98),
}
# Sets of `one_pass` with a given psi: first with two classes, then with all classes.
TWO_CLASSES = {"a9a": 64, "covtype": 4096, "mnist": 1024}
ALL_CLASSES = {"covtype": 4096, "letter": 1024, "satimage": 256, "dna": 64, "mnist": 1024}


def _draw(report: Report, curves: dict[tuple[str, str], tuple[Any, ...]], what: str) -> None:
    """Draw the accuracy and the time of each model against `what`, with a column for each set."""
    if not curves:
        return
    sets = list(dict.fromkeys(name for name, _ in curves))
    with report.drawing(2, len(sets), (5 * len(sets), 7), squeeze=False) as axes:
        for (name, peer), (places, *values) in curves.items():
            for axis, found in zip(axes[:, sets.index(name)], values, strict=True):
                axis.plot(places, found, label=peer)
        for column, name in zip(axes.T, sets, strict=True):
            column[0].set(title=name, ylabel="accuracy")
            column[1].set(yscale="log", xlabel=what, ylabel="seconds")
            if what != "samples":
                column[0].set(xscale="log")
                column[1].set(xscale="log")
        axes[0, 0].legend()


def online(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy and time along a stream of blocks (Figure 3 of Ting et al. 2021).

    Accuracy and time along a stream (Figure 3 of Ting et al. 2021). The first {start} rows are
    used to select psi (5-fold cross-validation), to build the maps and to train the first
    models. Then blocks of {BLOCK} rows are predicted and learned. The isolation kernels have
    100 partitions, NOGD has the budget 100, and random Fourier features have 100 features. All
    models have the hinge loss and the learning rate {models.RATE}. The last column has the time
    of all {blocks} blocks relative to the first {first} blocks. This ratio is {constant:.1f} if
    the time per sample is constant, and up to {growing:.1f} if it grows with the number of
    support vectors.
    """
    start, blocks = (500, 2) if quick else (5000, 30)
    rows, curves = [], {}
    for each in two_class_sets(data, quick, {name: ROWS[name] for name in ("a9a", "covtype")}):
        X = np.vstack([each.X, each.X_test])
        y = np.concatenate([each.y, each.y_test])
        for peer in models.PEERS:
            progress(f"online: {each.name}, {peer}")
            psi = models.choose_psi(peer, X[:start], y[:start], quick)
            model = models.make_model(peer, psi, X[:start])
            model.learn(X[:start], y[:start])
            right, seconds, n = 0, 0.0, 0
            course: list[tuple[int, float, float]] = []
            for begin in range(start, min(start + blocks * BLOCK, len(X)), BLOCK):
                block = slice(begin, begin + BLOCK)
                began = time.perf_counter()
                predicted = model.predict(X[block])
                model.learn(X[block], y[block])
                seconds += time.perf_counter() - began
                right += int((predicted == y[block]).sum())
                n += len(predicted)
                course.append((n, right / n, seconds))
            curves[each.name, peer] = tuple(zip(*course, strict=True))
            share = seconds / course[len(course) // 2][2]
            row = (each.name, peer, psi, n, f"{right / n:.4f}", f"{seconds:.2f}", f"{share:.1f}")
            rows.append(row)
    first = blocks // 2 + 1
    constant, growing = blocks / first, (blocks / first) ** 2
    report.about(
        online, start=start, blocks=blocks, first=first, constant=constant, growing=growing
    )
    headers = ("data", "model", "psi", "n", "accuracy", "seconds", "whole / half")
    report.table(headers, rows)
    _draw(report, curves, "samples")


def table5(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare test accuracy and time after one pass (Table 5 of Ting et al. 2021).

    Test accuracy and time after one pass (Table 5 of Ting et al. 2021). The isolation kernels
    have 100 partitions, NOGD has the budget 100, and random Fourier features have 100 features.
    All models have the hinge loss and the constant learning rate {models.RATE}. The number of
    cells per partition, psi, is selected from (4, 16, 64, 256, 1024, 4096) by 5-fold
    cross-validation. The isolation kernels use 10,000 training rows for the selection (mnist:
    5,000), and the others 2,000 rows. For the isolation kernels, psi is at most a quarter of
    these rows. The column `build` has the time to build the map from the training rows. The
    last column has the time to learn these rows and to predict the test rows. OGD gets mappings
    one by one, the others get frames. The paper's accuracies are for all rows, with psi
    selected on all rows. AdaRaker is not compared, because its authors' code is not a Python
    package. In the paper, AdaRaker is less accurate than OGD on each set that it could finish.
    """
    rows = []
    for each in two_class_sets(data, quick):
        paper = PAPER.get(each.name, (None,) * len(models.PEERS))
        for peer, expected in zip(models.PEERS, paper, strict=True):
            progress(f"table5: {each.name}, {peer}")
            psi = models.choose_psi(peer, each.X, each.y, quick)
            began = time.perf_counter()
            model = models.make_model(peer, psi, each.X)
            built_at = time.perf_counter()
            model.learn(each.X, each.y)
            accuracy = models.accuracy_of(model, each.X_test, each.y_test)
            spent = time.perf_counter() - built_at
            of_paper = "-" if expected is None else f"{expected:.2f}"
            sizes = f"{len(each.X)} / {len(each.X_test)}"
            times = f"{built_at - began:.2f}", f"{spent:.2f}"
            rows.append((each.name, sizes, peer, psi, f"{accuracy:.4f}", of_paper, *times))
    report.about(table5)
    headers = ("data", "rows", "model", "psi", "accuracy", "paper", "build, s", "learn and test, s")
    report.table(headers, rows)


def figure5(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy by number of partitions and by budget (Figure 5 of Ting et al. 2021).

    Accuracy and time against the number of partitions t and the budget b (Figure 5 of Ting et
    al. 2021). The isolation kernels have t partitions, NOGD has the budget b and the rank 0.2
    b, and random Fourier features have t features. Models have the hinge loss and the constant
    learning rate {models.RATE}. The number of cells per partition, psi, is selected by 5-fold
    cross-validation at t = b = 100.
    """
    grid = (10, 100) if quick else (10, 30, 100, 300, 1000)
    rows, curves = [], {}
    for each in two_class_sets(data, quick, {"covtype": (20_000, 10_000)}):
        for peer in (models.NOGD, models.RFF, models.IK_I, models.IK_A):
            psi = models.choose_psi(peer, each.X[:5000], each.y[:5000], quick)
            accuracies, times = [], []
            for t in grid:
                progress(f"figure5: {each.name}, {peer}, {t}")
                model = models.Primal(models.features_of(peer, psi, len(each.X), each.d, t), each.X)
                began = time.perf_counter()
                model.learn(each.X, each.y)
                accuracies.append(models.accuracy_of(model, each.X_test, each.y_test))
                times.append(time.perf_counter() - began)
                rows.append((each.name, peer, psi, t, f"{accuracies[-1]:.4f}", f"{times[-1]:.2f}"))
            curves[each.name, peer] = grid, accuracies, times
    report.about(figure5)
    report.table(("data", "model", "psi", "t or b", "accuracy", "learn and test, s"), rows)
    _draw(report, curves, "t or b")


def one_pass(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the accuracy of IK-OGD on full sets with a given psi, AdaGrad and one pass.

    Test accuracy of IK-OGD on full sets with a fixed number of cells per partition (psi).
    Models learn all training rows once, with t = 100 partitions and AdaGrad with rate
    {models.RATE}. The loss is the hinge loss for two classes, and softmax for more classes. The
    map is built from up to 25 psi training rows. The last column has the seconds to build the
    map and to learn. The paper's accuracies are those of its Table 5.
    """
    rows = []
    asked: list[tuple[Set, int]] = [
        (each, TWO_CLASSES[each.name])
        for each in two_class_sets(data, quick, WHOLE)
        if each.name in TWO_CLASSES
    ]
    names = list(ALL_CLASSES)[: 1 if quick else None]
    for name, each in available(partial(load_set, data), names):
        asked.append((each.part(2000, 500) if quick else each, ALL_CLASSES[name]))
    for each, psi in asked or [(digits_set(), 256)]:
        n_classes = len(np.unique(each.y))
        for peer in (models.IK_A, models.IK_I):
            progress(f"one_pass: {each.name}, {n_classes} classes, {peer}")
            began = time.perf_counter()
            model = models.make_model(peer, psi, each.X, learning_rate=optim.AdaGrad(models.RATE))
            model.learn(each.X, each.y)
            spent = time.perf_counter() - began
            accuracy = models.accuracy_of(model, each.X_test, each.y_test)
            expected = PAPER.get(each.name, (None,) * len(models.PEERS))[models.PEERS.index(peer)]
            paper = f"{expected:.2f}" if n_classes == 2 and expected else "-"
            sizes = (each.name, n_classes, len(each.X))
            rows.append((*sizes, peer, psi, f"{accuracy:.4f}", paper, f"{spent:.1f}"))
    report.about(one_pass)
    report.table(("data", "classes", "rows", "model", "psi", "accuracy", "paper", "seconds"), rows)


def _svm_sets(data: DataFolder, quick: bool) -> list[Set]:
    limits = {"a9a": (6000, 5000), "covtype": (6000, 5000), "mnist": (4000, 4000)}
    return two_class_sets(data, quick, limits)


def _cells(each: Set, name: str, quick: bool) -> tuple[int, Any, Any, float]:
    """Return psi, the matrices of cells of training and test rows, and the seconds of the map."""
    psi = models.choose_psi(name, each.X, each.y, quick)
    began = time.perf_counter()
    features = models.built(models.isolation_map(models.METHODS[name], psi, len(each.X)), each.X)
    train, test = (features.to_csr(frame_of(X)) for X in (each.X, each.X_test))
    return psi, train, test, time.perf_counter() - began


def _fitted(model: Any, train: Any, test: Any, each: Set) -> tuple[str, str]:
    """Return the test accuracy and the seconds of a model of scikit-learn."""
    began = time.perf_counter()
    accuracy = model.fit(train, each.y).score(test, each.y_test)
    return f"{accuracy:.4f}", f"{time.perf_counter() - began:.2f}"


def table7(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare a linear SVM on cells with a Laplace kernel SVM (Table 7 of Ting et al. 2021).

    IK-SVM, compared with the SVM with the Laplace kernel (Table 7 of Ting et al. 2021). IK-SVM
    is scikit-learn's LinearSVC on CSR matrices of cells, and the other model is scikit-learn's
    SVC. All models have C = 1, and learn the first training rows. The cells are from t = 100
    partitions. The number of cells per partition, psi, was selected by cross-validation with
    OGD instead of the SVM.
    """
    from sklearn.metrics.pairwise import laplacian_kernel
    from sklearn.svm import SVC, LinearSVC

    rows = []
    for each in _svm_sets(data, quick):
        progress(f"table7: {each.name}")
        psi = models.choose_psi(models.OGD, each.X, each.y, quick)
        svc = SVC(kernel=partial(laplacian_kernel, gamma=math.log(psi) / each.d))
        accuracy, spent = _fitted(svc, each.X, each.X_test, each)
        rows.append((each.name, len(each.X), "SVC Laplace", psi, accuracy, "-", spent))
        for name in models.METHODS:
            psi, train, test, mapped = _cells(each, name, quick)
            accuracy, spent = _fitted(LinearSVC(C=1.0), train, test, each)
            model = name.replace("OGD", "SVM")
            rows.append((each.name, len(each.X), model, psi, accuracy, f"{mapped:.2f}", spent))
    report.about(table7)
    headers = ("data", "rows", "model", "psi", "accuracy", "map, s", "train and test, s")
    report.table(headers, rows)


def table8(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare additive chi-squared kernel features with cells (Table 8 of Ting et al. 2021).

    Features of the additive chi-squared kernel, compared with cells (Table 8 of Ting et al.
    2021). Both kinds of features are the input of scikit-learn's LinearSVC with C = 1, on the
    first training rows. AdditiveChi2Sampler has 2 sampling steps. The column `features` has the
    mean number of features of a row that are not 0.
    """
    from sklearn.kernel_approximation import AdditiveChi2Sampler
    from sklearn.svm import LinearSVC

    rows = []
    for each in _svm_sets(data, quick):
        progress(f"table8: {each.name}")
        sampler = AdditiveChi2Sampler(sample_steps=2)
        # Test rows may have negative values, which the sampler does not accept.
        X, X_test = (sampler.fit_transform(np.maximum(X, 0.0)) for X in (each.X, each.X_test))
        pairs: list[tuple[str, Array, Array]] = [("chi-squared", X, X_test)]
        for name in models.METHODS:
            psi, train, test, _ = _cells(each, name, quick)
            pairs.append((f"{name.removesuffix('-OGD')}, psi = {psi}", train, test))
        for name, train, test in pairs:
            nonzero = train.nnz if sparse.issparse(train) else np.count_nonzero(train)
            width = round(nonzero / len(each.X))
            found = _fitted(LinearSVC(C=1.0), train, test, each)
            rows.append((each.name, len(each.X), name, width, *found))
    report.about(table8)
    report.table(("data", "rows", "features of", "features", "accuracy", "train and test, s"), rows)
