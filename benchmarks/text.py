"""Accuracy, time and memory on text, compared with other libraries."""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from river import linear_model, naive_bayes, optim, preprocessing
from scipy import sparse

import river_mondrian as rm

from .data import Array, DataFolder, Stream, available
from .report import Report, progress
from .scores import class_scores

SEED = 1
# Number of samples that are learned before the timed run, to compile all kernels.
N_WARM = 1200


class Part(NamedTuple):
    """Training or test rows of a set, and their classes."""

    X: sparse.csr_matrix
    y: Array


class TextSet(NamedTuple):
    """A set of training rows and test rows."""

    train: Part
    test: Part


def _read(arrays: dict[str, Array]) -> TextSet:
    """Return the training and test rows in an .npz file."""

    def part(name: str) -> Part:
        data, indices, starts = (arrays[f"X_{name}_{key}"] for key in ("data", "indices", "indptr"))
        shape = tuple(arrays[f"X_{name}_shape"].tolist())
        X = sparse.csr_matrix((data.astype(float), indices.astype(np.int32), starts), shape)
        return Part(X, arrays[f"y_{name}"].astype(np.int64))

    return TextSet(part("train"), part("test"))


def _weighted(found: TextSet) -> TextSet:
    """Return tf-idf rows of length 1 with tf = 1 + log(count); the idf is from training rows."""
    n = found.train.X.shape[0]
    n_with = np.asarray((found.train.X > 0).sum(axis=0)).ravel()
    weights = sparse.diags(np.log((1 + n) / (1 + n_with)) + 1.0)

    def weighted(part: Part) -> Part:
        X = part.X.copy()
        X.data = 1.0 + np.log(X.data)
        X = (X @ weights).tocsr()
        lengths = np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())
        return Part((sparse.diags(1.0 / lengths) @ X).tocsr(), part.y)

    return TextSet(weighted(found.train), weighted(found.test))


def _of_classes(found: TextSet, classes: Array) -> TextSet:
    """Return the rows of some classes."""
    return TextSet(*(Part(p.X[np.isin(p.y, classes)], p.y[np.isin(p.y, classes)]) for p in found))


def _sets(data: DataFolder) -> dict[str, TextSet]:
    """Return the sets by name; settings were selected on the first two."""
    found = {}
    for name, arrays in available(data.load, ("reuters_acq", "docstrings")):
        counts = _read(arrays)
        if name == "reuters_acq":
            found[name] = counts
            continue
        # The idf of a half is from its own training documents.
        classes = np.unique(counts.train.y)
        found["packages, 1st half"] = _weighted(_of_classes(counts, classes[::2]))
        found["packages, 2nd half"] = _weighted(_of_classes(counts, classes[1::2]))
        found["packages"] = _weighted(counts)
        found["packages, counts"] = counts
    return found


def _mappings(X: sparse.csr_matrix) -> list[dict[Any, float]]:
    """Return rows as mappings from words to values."""
    rows = zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True)
    words = [f"w{place}" for place in X.indices.tolist()]
    values = X.data.tolist()
    return [dict(zip(words[a:b], values[a:b], strict=True)) for a, b in rows]


def _on(n_partitions: int, n_cells: int, pool_size: int, linear: bool = True) -> rm.OGDClassifier:
    features = rm.IsolationFeatures(n_partitions, n_cells, pool_size=pool_size, seed=SEED)
    return rm.OGDClassifier(features, linear=linear)


OURS: dict[str, Callable[[], Any]] = {
    "OGDClassifier()": lambda: rm.OGDClassifier(seed=SEED),
    "words alone (a cell of all)": lambda: _on(1, 1, 1024),
    "cells alone (linear=False)": lambda: rm.OGDClassifier(linear=False, seed=SEED),
    "psi 1024, pool 4096": lambda: _on(100, 1024, 4096),
    "cells alone, psi 1024, pool 4096": lambda: _on(100, 1024, 4096, linear=False),
}
RIVERS: dict[str, Callable[[], Any]] = {
    "River's SoftmaxRegression, AdaGrad": lambda: linear_model.SoftmaxRegression(
        optim.AdaGrad(0.5), l2=0.0
    ),
    "the same after Normalizer": lambda: (
        preprocessing.Normalizer() | linear_model.SoftmaxRegression(optim.AdaGrad(0.5), l2=0.0)
    ),
}
# River's softmax regression stores a mapping of all words for each class, so it is slow.
MOST_CLASSES_OF_RIVERS = 2


def _stream_row(make: Callable[[], Any], found: TextSet) -> list[str]:
    """Train a model in one pass; return accuracies, seconds and megabytes."""
    train, test = (_mappings(part.X) for part in found)
    labels = found.train.y.tolist()
    warm = make()
    for x, y in zip(train[:N_WARM], labels, strict=False):
        warm.learn_one(x, y)
        warm.predict_one(x)
    model = make()
    began = time.process_time()
    for x, y in zip(train, labels, strict=True):
        model.learn_one(x, y)
    learned = time.process_time()
    predicted = [model.predict_one(x) for x in test]
    ended = time.process_time()
    model, right = make(), 0
    for x, y in zip(train, labels, strict=True):
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    size = model._raw_memory_usage / 1e6
    accuracy = np.mean(np.array(predicted) == found.test.y)
    times = f"{learned - began:.2f}", f"{ended - learned:.2f}"
    return [f"{accuracy:.3f}", f"{right / len(train):.3f}", *times, f"{size:.0f}"]


def _batch_rows(found: TextSet) -> list[list[str]]:
    """Return the rows of scikit-learn's models: SGD in one pass, and LinearSVC."""
    from sklearn.linear_model import SGDClassifier
    from sklearn.svm import LinearSVC

    (X, y), (fresh, answers) = found
    rows = []
    for name, model in (
        ("SGDClassifier.partial_fit, one pass", SGDClassifier(random_state=SEED)),
        ("LinearSVC", LinearSVC(random_state=SEED)),
    ):
        began = time.process_time()
        if isinstance(model, SGDClassifier):
            model.partial_fit(X, y, classes=np.unique(y))
        else:
            with warnings.catch_warnings():
                # LinearSVC warns that it does not converge on counts.
                warnings.simplefilter("ignore")
                model.fit(X, y)
        learned = time.process_time()
        accuracy = model.score(fresh, answers)
        times = f"{learned - began:.2f}", f"{time.process_time() - learned:.2f}"
        rows.append([name, f"{accuracy:.3f}", "-", *times, "-"])
    return rows


def classes(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare accuracy and time on text of few and of many classes.

    Accuracy and time on text of few and of many classes. {sizes}. All models except LinearSVC
    learn the training documents in one pass. All sets have tf-idf of length 1, except the last
    set, which has counts. The documents of packages are the docstrings of modules, made by
    `python -m benchmarks.docstrings`, and the classes are the packages. The column `accuracy`
    is on test documents. The next column is the accuracy on training documents, each predicted
    before it is learned. Times are processor times for all documents. The models of
    scikit-learn get matrices, the others get mappings. Learning rates and weights of words were
    selected on reuters_acq and on the first half of the packages, as tf-idf and as counts. The
    second half of the packages was held out.
    """
    rows: list[list[Any]] = []
    sizes = []
    for name, found in _sets(data).items():
        n_classes = len(np.unique(found.train.y))
        n_words = len(np.unique(np.concatenate([part.X.indices for part in found])))
        sizes.append(
            f"`{name}` has {n_classes} classes, {len(found.train.y)} training and "
            f"{len(found.test.y)} test documents, and {n_words} words"
        )
        if quick:
            found = TextSet(*(Part(part.X[:1500], part.y[:1500]) for part in found))
        makes = OURS | (RIVERS if n_classes <= MOST_CLASSES_OF_RIVERS else {})
        for model, make in makes.items():
            progress(f"classes: {name}, {model}")
            rows.append([name, model, *_stream_row(make, found)])
        rows.extend([name, *row] for row in _batch_rows(found))
    report.about(classes, sizes=". ".join(sizes))
    report.table(
        ["data", "model", "accuracy", "before learning", "learn, s", "predict, s", "MB"], rows
    )


def _bags(data: DataFolder, n_words: int, n: int) -> Stream:
    """Return the first Reuters texts as mappings of the most frequent words to numbers."""
    X, y = _read(data.load("reuters_acq")).train
    frequencies = np.asarray((X > 0).sum(axis=0)).ravel()
    X = X[:, np.sort(np.argsort(-frequencies, kind="stable")[:n_words])].tocsr()
    return list(zip(_mappings(X[:n]), y[:n].tolist(), strict=True))


def forests(data: DataFolder, report: Report, quick: bool) -> None:
    """Compare forests with River's naive Bayes on bags of the 2,000 most frequent words.

    Accuracy, time and memory on bags of words, compared with naive Bayes. The {n} texts are
    from reuters_acq. A text has on average {present:.0f} of the 2,000 most frequent words. The
    share of the second class is {share:.3f}. An absent word counts as 0, or as a missing value
    for the model with `unknown` in its name.
    """
    samples = _bags(data, 2000, 1000 if quick else 7770)
    present = np.mean([len(x) for x, _ in samples])
    share = np.mean([y for _, y in samples])
    report.about(forests, n=len(samples), present=present, share=share)
    rows = []
    for name, make in {
        "adaptive": lambda: rm.AdaptiveMondrianForestClassifier(10, missing="zero", seed=1),
        "adaptive, unknown": lambda: rm.AdaptiveMondrianForestClassifier(10, seed=1),
        "exact": lambda: rm.MondrianForestClassifier(missing="zero", seed=1),
        "multinomial naive Bayes": naive_bayes.MultinomialNB,
        "complement naive Bayes": naive_bayes.ComplementNB,
        "Bernoulli naive Bayes": naive_bayes.BernoulliNB,
    }.items():
        progress(f"forests: {name}")
        model, began = make(), time.process_time()
        accuracy, loss, _ = class_scores(model, samples)
        cost = 1e3 * (time.process_time() - began) / len(samples)
        size = model._raw_memory_usage / 2**20
        rows.append([name, f"{accuracy:.4f}", f"{loss:.4f}", f"{cost:.2f}", f"{size:.1f}"])
    report.table(["model", "accuracy", "log loss", "ms per text", "MiB"], rows)


def words(data: DataFolder, report: Report, quick: bool) -> None:
    """Measure time and memory of forests on bags of up to 10,000 words.

    Processor time and memory on bags that have 50 of up to 10,000 words. The forests have 10
    trees. Times are means over all samples after the first sample.
    """
    rows, n = [], 100 if quick else 400
    for n_words in (100, 1000, 10_000):
        rng = np.random.default_rng(1)
        for name, make in (
            ("exact", rm.MondrianForestClassifier),
            ("adaptive", rm.AdaptiveMondrianForestClassifier),
        ):
            progress(f"words: {n_words}, {name}")
            model = make(n_estimators=10, missing="zero", seed=1)
            model.learn_one({f"w{i}": 1.0 for i in range(n_words)}, 0)
            seconds = np.zeros(2)
            for _ in range(n):
                places = rng.choice(n_words, 50, replace=False).tolist()
                x, y = {f"w{i}": 1.0 for i in places}, min(places) % 2
                start = time.process_time()
                model.predict_proba_one(x)
                between = time.process_time()
                model.learn_one(x, y)
                seconds += between - start, time.process_time() - between
            times = [f"{1e3 * one / n:.2f}" for one in seconds]
            rows.append([f"{n_words:,}", name, *times, f"{model._raw_memory_usage / 2**20:.0f}"])
    report.about(words)
    report.table(["words", "forest", "predict, ms", "learn, ms", "MiB"], rows)


PARTS = (forests, words, classes)
