"""Accuracy of online learning: the paper's Figure 3 and Table 5, full sets, many classes."""

from __future__ import annotations

import time

import numpy as np
from river import optim

from ..data import DataFolder
from ..report import Report, progress, pyplot
from .models import FOLDS, IK_A, IK_I, PEERS, PSI, RATE, T, accuracy_of, choose_psi, make_model
from .sets import ROWS, WHOLE, digits_set, load_set, two_class_sets

BLOCK = 1000  # Number of rows in the paper's blocks of a stream.
# Accuracies in the paper, in the order of PEERS.
PAPER: dict[str, tuple[float | None, ...]] = {
    "a9a": (0.84, 0.84, None, 0.84, 0.84),
    "covtype": (0.76, 0.70, None, 0.86, 0.92),
    "mnist": (0.97, 0.85, None, 0.95, 0.98),
}


def online(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy and time along a stream of blocks (Figure 3 of Ting et al. 2021)."""
    start, blocks = (500, 2) if quick else (5000, 30)
    sets = two_class_sets(data, quick, {name: ROWS[name] for name in ("a9a", "covtype")})
    plt = pyplot()
    figure, axes = plt.subplots(2, len(sets), figsize=(5 * len(sets), 7), squeeze=False)
    rows = []
    for column, each in enumerate(sets):
        X = np.vstack([each.X, each.X_test])
        y = np.concatenate([each.y, each.y_test])
        for peer in PEERS:
            progress(f"online: {each.name}, {peer}")
            psi = choose_psi(peer, X[:start], y[:start], quick)
            model = make_model(peer, psi, X[:start])
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
            counts, accuracies, times = zip(*course, strict=True)
            axes[0, column].plot(counts, accuracies, label=peer)
            axes[1, column].plot(counts, times, label=peer)
            share = times[-1] / times[len(times) // 2] if len(times) > 1 else 1.0
            rows.append(
                (each.name, peer, psi, n, f"{right / n:.4f}", f"{seconds:.2f}", f"{share:.1f}")
            )
        axes[0, column].set_title(each.name)
        axes[1, column].set_yscale("log")
        axes[1, column].set_xlabel("samples")
    axes[0, 0].set_ylabel("accuracy so far")
    axes[1, 0].set_ylabel("seconds")
    axes[0, 0].legend()
    report.note(
        f"Accuracy and time along a stream (Figure 3 of Ting et al. 2021). The first {start} rows "
        f"are used to select psi ({FOLDS}-fold cross-validation), to build the maps and to train "
        f"the first models. Then blocks of {BLOCK} rows are predicted and learned. The isolation "
        f"kernels have {T} partitions, NOGD has the budget {T}, and random Fourier features have "
        f"{T} features. All models have the hinge loss and the learning rate {RATE}. The last "
        "column has the time of the full stream relative to its first half. This ratio is 2 if "
        "the time per sample is constant, and up to 4 if it grows with the number of support "
        "vectors."
    )
    report.table(
        ("data", "model", "psi", "n", "accuracy", "seconds", "whole / half"),
        rows,
    )
    report.figure(figure, "")


def table5(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare test accuracy and time after one pass (Table 5 of Ting et al. 2021)."""
    rows = []
    for each in two_class_sets(data, quick):
        paper = PAPER.get(each.name, (None,) * len(PEERS))
        for peer, expected in zip(PEERS, paper, strict=True):
            progress(f"table5: {each.name}, {peer}")
            psi = choose_psi(peer, each.X, each.y, quick)
            began = time.perf_counter()
            model = make_model(peer, psi, each.X)
            built = time.perf_counter()
            model.learn(each.X, each.y)
            accuracy = accuracy_of(model, each.X_test, each.y_test)
            spent = time.perf_counter() - built
            rows.append(
                (
                    each.name,
                    f"{len(each.X)} / {len(each.X_test)}",
                    peer,
                    psi,
                    f"{accuracy:.4f}",
                    "-" if expected is None else f"{expected:.2f}",
                    f"{built - began:.2f}",
                    f"{spent:.2f}",
                )
            )
    report.note(
        "Test accuracy and time after one pass (Table 5 of Ting et al. 2021). The isolation "
        f"kernels have {T} partitions, NOGD has the budget {T}, and random Fourier features have "
        f"{T} features. All models have the hinge loss and the constant learning rate {RATE}. The "
        f"number of cells per partition, psi, is selected from {PSI} by {FOLDS}-fold "
        "cross-validation. The isolation kernels use 10,000 training rows for the selection "
        "(mnist: 5,000), and the others 2,000 rows. The column `build` has the time to build the "
        "map from the training rows. The last column has the time to learn these rows and to "
        "predict the test rows. OGD gets mappings one by one, the others get frames. The paper's "
        "accuracies are for all rows, with psi selected on all rows. AdaRaker is not compared, "
        "because its authors' code is no Python package. In the paper, AdaRaker is less accurate "
        "than OGD on each set that it could finish."
    )
    report.table(
        (
            "data",
            "rows",
            "model",
            "psi",
            "accuracy",
            "paper",
            "build, s",
            "learn and test, s",
        ),
        rows,
    )


def targets(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure the accuracy of IK-OGD on full sets, with AdaGrad and a fixed psi."""
    rows = []
    asked = (
        ("a9a", IK_A, 64, 0.84),
        ("a9a", IK_I, 64, 0.84),
        ("covtype", IK_I, 4096, 0.86),
        ("covtype", IK_A, 4096, 0.92),
        ("mnist", IK_I, 1024, 0.95),
        ("mnist", IK_A, 1024, 0.98),
    )
    if data.folder is None:
        return
    sets = {each.name: each for each in two_class_sets(data, quick, WHOLE)}
    for name, peer, psi, target in asked:
        if name not in sets:
            continue
        each = sets[name]
        progress(f"targets: {name}, {peer}")
        began = time.perf_counter()
        model = make_model(peer, psi, each.X, learning_rate=optim.AdaGrad(RATE))
        model.learn(each.X, each.y)
        trained = time.perf_counter() - began
        accuracy = accuracy_of(model, each.X_test, each.y_test)
        rows.append(
            (
                name,
                peer,
                psi,
                len(each.X),
                f"{accuracy:.4f}",
                f"{target:.2f}",
                f"{trained:.1f}",
            )
        )
    report.note(
        "Test accuracy of IK-OGD on full sets with a fixed number of cells per partition (psi). "
        f"Models learn all rows once, with t = {T} partitions, the hinge loss, and AdaGrad with "
        f"rate {RATE}. The map is built from up to 25 psi training rows."
    )
    report.table(("data", "model", "psi", "rows", "accuracy", "paper", "build and learn, s"), rows)


def classes(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure test accuracy with many classes after one pass."""
    asked = {"letter": 1024, "satimage": 256, "dna": 64, "mnist": 1024, "covtype": 4096}
    if data.folder is None:
        asked = {"digits": 256}
    rows = []
    for name, psi in list(asked.items())[: 1 if quick else None]:
        each = digits_set() if data.folder is None else load_set(data, name)
        if each is None:
            continue
        each = each.part(2000, 500) if quick else each
        for peer in (IK_A, IK_I):
            progress(f"classes: {name}, {peer}")
            began = time.perf_counter()
            model = make_model(peer, psi, each.X, learning_rate=optim.AdaGrad(RATE))
            model.learn(each.X, each.y)
            trained = time.perf_counter() - began
            accuracy = accuracy_of(model, each.X_test, each.y_test)
            rows.append(
                (
                    name,
                    len(np.unique(each.y)),
                    peer,
                    psi,
                    f"{accuracy:.4f}",
                    f"{trained:.1f}",
                )
            )
    report.note(
        f"Test accuracy with many classes. Models learn all training rows once, with t = {T} "
        f"partitions, softmax, and AdaGrad with rate {RATE}."
    )
    report.table(
        ("data", "classes", "model", "psi", "accuracy", "build and learn, s"),
        rows,
    )
