"""Online gradient descent with support vectors: the baseline of the feature maps."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from .inputs import check_label, check_value, ordered
from .kernels.dual import GAUSSIAN, LAPLACE, sum_over_rows

KINDS = {"laplace": LAPLACE, "gaussian": GAUSSIAN}


class DualOGDClassifier(base.Classifier):
    """Kernel online gradient descent with a growing set of support vectors.

    A sample on which the hinge loss is not 0 becomes a support vector, and a prediction sums the
    kernel over all of them[^1] (Algorithm 1)[^2]. The number of support vectors usually grows
    with the stream, and the time of a prediction with it: this is the baseline against which
    `OGDClassifier` on a feature map is measured, whose time stays the same.

    A feature that is absent from the mapping, or NaN, is 0. Support vectors are stored by their
    values that are not 0. Features and classes may appear at any time.

    Parameters
    ----------
    kernel
        "laplace" for exp(-lifetime |x - y|_1) or "gaussian" for exp(-gamma |x - y|_2^2).
    lifetime
        Rate of the Laplace kernel, per unit of the features. The psi of the reference is
        lifetime = log(psi) / number of features.
    gamma
        Rate of the Gaussian kernel, per squared unit of the features.
    learning_rate
        Coefficient of a new support vector.

    Notes
    -----
    The reference has two classes and one function f. Here each class has its function, trained on
    its samples against the rest, and the largest is predicted. With two labels the second is
    minus the first, which is the algorithm of the reference; a third label and those after it
    start from f = 0 with their first sample.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> from river_mondrian import DualOGDClassifier

    >>> model = DualOGDClassifier(kernel="gaussian", gamma=1.0)
    >>> dataset = datasets.Bananas().take(1000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    >>> model.n_supports < 1000
    True

    References
    ----------
    [^1]: Kivinen, J., Smola, A. J. and Williamson, R. C. (2001). Online Learning with Kernels.
    Advances in Neural Information Processing Systems 14.
    [^2]: Ting, K. M., Wells, J. R. and Washio, T. (2021). Isolation Kernel: The X Factor in
    Efficient and Effective Large Scale Online Kernel Learning. Data Mining and Knowledge
    Discovery 35. Algorithm 1, section 6.

    """

    def __init__(
        self,
        kernel: str = "laplace",
        lifetime: float = 1.0,
        gamma: float = 1.0,
        learning_rate: float = 0.5,
    ) -> None:
        if kernel not in KINDS:
            raise ValueError(f'kernel must be "laplace" or "gaussian", got {kernel!r}')
        _check_positive("lifetime", lifetime)
        _check_positive("gamma", gamma)
        _check_positive("learning_rate", learning_rate)
        self.kernel = kernel
        self.lifetime = lifetime
        self.gamma = gamma
        self.learning_rate = learning_rate
        self._places: dict[Hashable, int] = {}
        self._labels: dict[Hashable, int] = {}
        self._n = 0
        self._starts = np.zeros(1, dtype=np.int64)
        self._columns = np.zeros(0, dtype=np.int32)
        self._values = np.zeros(0)
        self._coefficients = np.zeros((0, 0))
        self._dense = np.zeros(0)

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def classes(self) -> list[Any]:
        """The labels seen so far, in order of appearance."""
        return list(self._labels)

    @property
    def n_supports(self) -> int:
        """Number of support vectors."""
        return self._n

    def _decide(self, values: Mapping[Hashable, float], out: NDArray[np.float64]) -> None:
        """Write f of each class to `out`."""
        kind = KINDS[self.kernel]
        known = {
            self._places[name]: value for name, value in values.items() if name in self._places
        }
        places, there = list(known), list(known.values())
        # Summed in one order, whatever the mapping's.
        if kind == LAPLACE:
            rate, size = self.lifetime, math.fsum(map(abs, values.values()))
        else:
            rate, size = self.gamma, math.fsum(value * value for value in values.values())
        self._dense[places] = there
        sum_over_rows(
            self._n,
            len(values),
            kind,
            float(rate),
            size,
            self._dense,
            self._starts,
            self._columns,
            self._values,
            self._coefficients,
            out,
        )
        self._dense[places] = 0.0

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Make a sample a support vector where its hinge loss is not 0.

        Parameters
        ----------
        x
            A mapping from feature to number. An absent key or NaN is 0.
        y
            A label: anything hashable but None and NaN.
        w
            Weight of the sample: its coefficient is the learning rate times it.

        Raises
        ------
        TypeError
            If a value is no number or the label is not hashable.
        ValueError
            If a value is infinite or too large for single precision, the label is missing, or the
            weight is negative or not finite.

        """
        check_label(y)
        if not 0.0 <= w < math.inf:
            raise ValueError(f"the weight must be a finite number >= 0, got {w!r}")
        values = _read(x)
        label = self._labels.get(y)
        if label is None:
            label = self._add_label(y)
        scores = np.empty(len(self._labels))
        self._decide(values, scores)
        signs = np.full(len(scores), -1.0)
        signs[label] = 1.0
        steps = np.where(signs * scores < 1.0, self.learning_rate * w * signs, 0.0)
        if steps.any():
            self._add_support(values, steps)

    def _add_label(self, y: Hashable) -> int:
        n = len(self._labels)
        wider = np.zeros((len(self._coefficients), n + 1))
        wider[:, :n] = self._coefficients
        if n == 1:
            wider[:, 1] = -wider[:, 0]
        self._coefficients = wider
        self._labels[y] = n
        return n

    def _add_support(self, values: Mapping[Hashable, float], steps: NDArray[np.float64]) -> None:
        for name in ordered(name for name in values if name not in self._places):
            self._places[name] = len(self._places)
        self._dense = _grown(self._dense, len(self._places))
        row = sorted((self._places[name], value) for name, value in values.items())
        start = int(self._starts[self._n])
        stop = start + len(row)
        self._starts = _grown(self._starts, self._n + 2)
        self._columns = _grown(self._columns, stop)
        self._values = _grown(self._values, stop)
        self._coefficients = _grown(self._coefficients, self._n + 1)
        self._starts[self._n + 1] = stop
        self._columns[start:stop] = [place for place, _ in row]
        self._values[start:stop] = [value for _, value in row]
        self._coefficients[self._n] = steps
        self._n += 1

    def decision_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return each label's f(x).

        Parameters
        ----------
        x
            A mapping from feature to number. An absent key or NaN is 0.

        Returns
        -------
        A mapping from label to number; empty before any learning.

        """
        scores = np.empty(len(self._labels))
        self._decide(_read(x), scores)
        return dict(zip(self._labels, scores.tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the label of the largest f(x), the one seen first where several are.

        Parameters
        ----------
        x
            A mapping from feature to number. An absent key or NaN is 0.

        Returns
        -------
        A label; None before any learning.

        """
        scores = self.decision_one(x)
        return max(scores, key=scores.__getitem__) if scores else None

    @property
    def _raw_memory_usage(self) -> int:
        arrays = (self._starts, self._columns, self._values, self._coefficients, self._dense)
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__)
        size += sum(sys.getsizeof(array) for array in arrays)
        for names in (self._places, self._labels):
            size += sys.getsizeof(names) + sum(sys.getsizeof(name) for name in names)
        return size


def _read(x: Mapping[Any, Any]) -> dict[Hashable, float]:
    """Check a mapping's values; returns those that are neither missing nor 0."""
    values = ((name, check_value(name, value)) for name, value in x.items())
    return {name: value for name, value in values if value == value and value != 0.0}


def _grown(array: NDArray[Any], n: int) -> NDArray[Any]:
    """Return an array of at least `n` rows with the same beginning, twice as long if it grows."""
    if n <= len(array):
        return array
    grown = np.zeros((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def _check_positive(name: str, value: Any) -> None:
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
