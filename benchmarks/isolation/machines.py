"""Support vector machines on features: the paper's Tables 7 and 8."""

from __future__ import annotations

import math
import time
from functools import partial

import numpy as np
from scipy import sparse

from ..data import DataFolder
from ..report import Report, progress
from .models import METHODS, OGD, T, built, choose_psi, isolation_map
from .sets import Set, frame_of, two_class_sets


def _svm(data: DataFolder, quick: bool) -> list[Set]:
    limits = {"a9a": (6000, 5000), "covtype": (6000, 5000), "mnist": (4000, 4000)}
    return two_class_sets(data, quick, limits)


def table7(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare a linear SVM on cells with a Laplace kernel SVM (Table 7 of Ting et al. 2021)."""
    from sklearn.metrics.pairwise import laplacian_kernel
    from sklearn.svm import SVC, LinearSVC

    rows = []
    for each in _svm(data, quick):
        psi = choose_psi(OGD, each.X, each.y, quick)
        progress(f"table7: {each.name}, SVC")
        svc = SVC(kernel=partial(laplacian_kernel, gamma=math.log(psi) / each.d))
        began = time.perf_counter()
        accuracy = svc.fit(each.X, each.y).score(each.X_test, each.y_test)
        spent = time.perf_counter() - began
        rows.append((each.name, len(each.X), "SVC Laplace", psi, f"{accuracy:.4f}", "-", spent))
        for name, method in METHODS.items():
            psi = choose_psi(name, each.X, each.y, quick)
            progress(f"table7: {each.name}, {name}")
            began = time.perf_counter()
            features = built(isolation_map(method, psi, len(each.X)), each.X)
            train, test = (features.to_csr(frame_of(X)) for X in (each.X, each.X_test))
            mapped = time.perf_counter() - began
            accuracy = LinearSVC(C=1.0).fit(train, each.y).score(test, each.y_test)
            spent = time.perf_counter() - began - mapped
            model = name.replace("OGD", "SVM")
            rows.append(
                (each.name, len(each.X), model, psi, f"{accuracy:.4f}", f"{mapped:.2f}", spent)
            )
    report.note(
        "IK-SVM, compared with the SVM with the Laplace kernel (Table 7 of Ting et al. 2021). "
        "IK-SVM is scikit-learn's LinearSVC on CSR matrices of cells, and the other model is "
        f"scikit-learn's SVC. Models have C = 1 and t = {T} partitions, and learn the first "
        "training rows. The number of cells per partition, psi, was selected for OGD by "
        "cross-validation."
    )
    report.table(
        ("data", "rows", "model", "psi", "accuracy", "map, s", "train and test, s"),
        [(*row[:-1], f"{row[-1]:.2f}") for row in rows],
    )


def table8(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare additive chi-squared kernel features with cells (Table 8 of Ting et al. 2021)."""
    from sklearn.kernel_approximation import AdditiveChi2Sampler
    from sklearn.svm import LinearSVC

    rows = []
    for each in _svm(data, quick):
        progress(f"table8: {each.name}")
        sampler = AdditiveChi2Sampler(sample_steps=2)
        # Test rows may have negative values, which the sampler does not accept.
        pairs = [("chi-squared", *(sampler.fit_transform(np.maximum(X, 0.0)) for X in each[1::2]))]
        for name, method in METHODS.items():
            psi = choose_psi(name, each.X, each.y, quick)
            features = built(isolation_map(method, psi, len(each.X)), each.X)
            pairs.append(
                (
                    f"{name.removesuffix('-OGD')}, psi = {psi}",
                    *(features.to_csr(frame_of(X)) for X in each[1::2]),
                )
            )
        for name, train, test in pairs:
            began = time.perf_counter()
            accuracy = LinearSVC(C=1.0).fit(train, each.y).score(test, each.y_test)
            spent = time.perf_counter() - began
            nonzero = train.nnz if sparse.issparse(train) else np.count_nonzero(train)
            width = round(nonzero / train.shape[0])
            rows.append((each.name, len(each.X), name, width, f"{accuracy:.4f}", f"{spent:.2f}"))
    report.note(
        "Features of the additive chi-squared kernel, compared with cells (Table 8 of Ting et al. "
        "2021). Both kinds of features are the input of scikit-learn's LinearSVC with C = 1, on "
        "the first training rows. AdditiveChi2Sampler has 2 sampling steps. The column `features` "
        "has the number of features of a row that are not 0."
    )
    report.table(("data", "rows", "features of", "features", "accuracy", "train and test, s"), rows)
