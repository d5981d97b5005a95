"""Kernel online gradient descent with support vectors, the baseline for feature maps."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from river import base

from .. import arguments, inputs
from ..checks import LARGEST_SIZE, check_array, check_number, refuse
from ..features.kernel_maps import IsolationFeatures
from ..learners.support_vectors import CellSupports, SparseSupports, SupportVectors
from ..model import Snapshot, locked
from ..records import owned
from ..records.memory import grown
from .labels import NumbersLabels


@dataclass(eq=False, repr=False)
class DualOGDClassifier(NumbersLabels, base.Classifier):
    """Kernel online gradient descent with a growing set of support vectors.

    A sample with a positive hinge loss in any decision function (see the notes) becomes a support
    vector. A decision function is a weighted sum of kernels over all support vectors[^1] (Algorithm
    1 of [^2]). The number of support vectors, and so the time per prediction, usually grows with
    the stream. This class is the baseline for `OGDClassifier`, whose time per prediction is
    constant.

    A feature that is absent from the mapping, or NaN, counts as 0. Only the non-zero values of
    support vectors are stored. With `IsolationFeatures`, only the cells of support vectors are
    stored once the map is final. Features and classes may appear at any time.

    Parameters
    ----------
    kernel
        "laplace" for exp(-lifetime |x - y|_1), "gaussian" for exp(-gamma |x - y|_2^2), or
        `IsolationFeatures` for the isolation kernel. A copy of this map learns with the model. When
        the map is rebuilt, the support vectors get new cells and keep their coefficients.
    lifetime
        Rate of the Laplace kernel, per unit of the features. The parameter psi of [^2] corresponds
        to lifetime = log(psi) / number of features.
    gamma
        Rate of the Gaussian kernel, per squared unit of the features.
    learning_rate
        Absolute coefficient of a new support vector of weight 1, in each decision function with a
        positive loss.

    Notes
    -----
    The algorithm of [^2] has two classes and one decision function f. Here each class has a
    decision function f, trained on the samples of the class against all other samples. The class
    with the largest f(x) is predicted. With two classes, the second function is minus the first
    function, as in [^2]. The function of a third or later class is 0 until the first
    sample of the class.

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

    kernel: str | IsolationFeatures = "laplace"
    lifetime: float = 1.0
    gamma: float = 1.0
    learning_rate: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        kernel, lifetime, gamma = self.kernel, self.lifetime, self.gamma
        arguments.check_positive("learning_rate", self.learning_rate)
        self._supports: SupportVectors[Any]
        if isinstance(kernel, IsolationFeatures):
            self._supports = CellSupports(kernel)
        else:
            arguments.check_kernel(kernel, lifetime, gamma)
            self._supports = SparseSupports(kernel, lifetime if kernel == "laplace" else gamma)
        # Coefficients of the decision functions, shape (support vectors, classes).
        self._coefficients = np.zeros((0, 0))
        self._n_samples = 0

    _IN_SNAPSHOT = ("_labels", "_coefficients", "_n_samples")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(owned(state))
        self._coefficients = np.ascontiguousarray(self._coefficients)
        check_array(self, "_coefficients", self._coefficients, np.float64, -math.inf, math.inf)
        n_supports, n_labels = len(self._supports), len(self._labels)
        check_number(self, "_n_samples", self._n_samples, n_supports, LARGEST_SIZE)
        check_number(self, "rows of _coefficients", len(self._coefficients), n_supports, 1 << 62)
        if self._coefficients.shape[1:] != (n_labels,):
            refuse(self, "the shape of _coefficients", self._coefficients.shape, f"not {n_labels}")

    @property
    @locked
    def n_samples(self) -> int:
        """Number of learned samples."""
        return self._n_samples

    @property
    @locked
    def n_supports(self) -> int:
        """Number of support vectors, which had a positive weight and hinge loss when learned."""
        return len(self._supports)

    def _state(self) -> dict[str, Any]:
        # Rows that are reserved for later support vectors are not saved, because they contain no
        # data.
        return super()._state() | {"_coefficients": self._coefficients[: len(self._supports)]}

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:  # type: ignore[override]
        """Raise an error, because the hinge loss does not define probabilities.

        Parameters
        ----------
        x
            A sample.

        Raises
        ------
        NotImplementedError
            Always: River requires this error from a classifier without probabilities.

        """
        raise NotImplementedError("the hinge loss gives no probabilities: use OGDClassifier")

    @locked
    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Add a sample to the support vectors if its hinge loss is positive.

        Parameters
        ----------
        x
            A mapping from feature to number. An absent key or NaN counts as 0.
        y
            A label: any hashable object except None and NaN.
        w
            Weight of the sample, from 0 to 1e30. The absolute coefficient of a new support vector
            is the learning rate times the weight. A sample of weight 0 does not become a support
            vector.

        Raises
        ------
        TypeError
            If a value or the weight is not a number, or the label is not hashable.
        ValueError
            If a value is infinite or too large for single precision, the label is missing, or the
            weight is out of range.

        """
        inputs.check_label(y)
        w = inputs.check_weight(w)
        supports = self._supports
        values = supports.check(x)
        label = self._labels.get(y)
        if label is None or not supports.is_final:
            self._pending = self._snapshot()
            supports.observe(values)
        if label is None:
            label = self._add_label(y)
        sample = supports.sample(values)
        scores = supports.weighted_sums(sample, self._coefficients)
        signs = np.full(len(scores), -1.0)
        signs[label] = 1.0
        # Lines 4 and 5 of Algorithm 1 in Ting, Wells and Washio (2021). For a label c of 1 or -1,
        # the hinge loss has the derivative -c if c f(x) < 1.
        steps = np.where(signs * scores < 1.0, self.learning_rate * w * signs, 0.0)
        if steps.any():
            if self._pending is None:
                self._pending = self._snapshot()
            n = len(supports)
            supports.add(sample)
            self._coefficients = grown(self._coefficients, n + 1)
            self._coefficients[n] = steps
        self._n_samples += 1
        self._pending = None

    def _snapshot(self) -> Snapshot:
        """Return a snapshot of all objects that change if a sample is learned."""
        return Snapshot([*self._supports.objects(), self])

    def _add_label(self, y: Hashable) -> int:
        inputs.warn_of_numbers(self._labels)
        n = len(self._labels)
        wider = np.zeros((len(self._coefficients), n + 1))
        wider[:, :n] = self._coefficients
        if n == 1:
            wider[:, 1] = -wider[:, 0]
        self._coefficients = wider
        self._labels = self._labels | {y: n}
        return n

    @locked
    def decision_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return the value f(x) of each label's decision function.

        Parameters
        ----------
        x
            A mapping from feature to number. An absent key or NaN counts as 0.

        Returns
        -------
        A mapping from label to number; empty before the first sample.

        """
        sample = self._supports.sample(self._supports.check(x))
        scores = self._supports.weighted_sums(sample, self._coefficients)
        return dict(zip(self._labels, scores.tolist(), strict=True))

    @locked
    def predict_one(self, x: Mapping[Any, Any]) -> Any:  # type: ignore[override]
        """Predict the label with the largest decision value.

        Among labels with equal values, the label seen first is predicted.

        Parameters
        ----------
        x
            A mapping from feature to number. An absent key or NaN counts as 0.

        Returns
        -------
        A label; None before the first sample.

        """
        scores = self.decision_one(x)
        return max(scores, key=scores.__getitem__) if scores else None

    @property
    def _raw_memory_usage(self) -> int:
        return super()._raw_memory_usage + getattr(self.kernel, "_raw_memory_usage", 0)
