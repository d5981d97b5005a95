"""Linear regression on a feature map by online gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from river import optim

from ..features.base import FeatureMap
from ..learners.gradient_descent.weights import DescentWeights
from ..model import locked
from ..native import native_series
from .feature_learner import TargetLearner
from .gradient_descent import OnlineGradientDescent


class OGDRegressor(OnlineGradientDescent, TargetLearner[DescentWeights]):
    """Online gradient descent regressor on a feature map.

    `OGDClassifier` says how the map and the weights are learned; this predicts the score itself.

    Parameters
    ----------
    features
        A feature map of this package. It is copied, and the copy learns along. None stands for
        `IsolationFeatures()`.
    loss
        "squared" (whose derivative is twice the error), "epsilon_insensitive" and "huber" (with
        0.1 for epsilon), or a `RegressionLoss` of River's `optim.losses`. Of River's
        `EpsilonInsensitiveHinge` only its epsilon is used: in itself, it is for targets 0 and 1.
    learning_rate
        A number for constant steps, or a scheduler, `optim.SGD` or `optim.AdaGrad` of River's.
        None stands for `optim.AdaGrad(0.1)`.
    seed
        Random seed of the default features. Features that are given have their own.

    Notes
    -----
    Steps are in units of the target, which should vary by about 1 (see
    `preprocessing.TargetStandardScaler`). With the squared loss, a constant learning rate of 0.5
    moves the prediction of the sample that is learned onto its target.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from river_mondrian import IsolationFeatures, OGDRegressor

    >>> model = preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(
    ...     OGDRegressor(IsolationFeatures(n_cells=16, pool_size=256, seed=42))
    ... )
    >>> metric = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    >>> metric.get() < 1.0
    True

    References
    ----------
    [^1]: Ting, K. M., Wells, J. R. and Washio, T. (2021). Isolation Kernel: The X Factor in
    Efficient and Effective Large Scale Online Kernel Learning. Data Mining and Knowledge
    Discovery 35. Algorithm 2.

    """

    _LOSSES: ClassVar[dict[str, type[optim.losses.Loss]]] = {
        "squared": optim.losses.Squared,
        "epsilon_insensitive": optim.losses.EpsilonInsensitiveHinge,
        "huber": optim.losses.Huber,
    }
    _KIND = optim.losses.RegressionLoss
    _RATE = 0.1

    def __init__(
        self,
        features: FeatureMap | None = None,
        loss: Any = "squared",
        learning_rate: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(features, loss, learning_rate, False, seed)

    @property
    def _n_scores(self) -> int:
        return 1

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Predict the target.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        The target; what a score of 0 stands for before any learning.

        """
        with self._lock:
            if self._pending is not None:
                self._settle()
            score = 0.0
            if self._current is not None:
                self._score(x)
                score = float(self._current.scores[0])
            return float(self._rule.loss.mean_func(score))

    @locked
    def predict_many(self, X: Any, *, progress: bool = False) -> Any:
        """Predict the targets of the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ...; nulls and NaN
            are missing.
        progress
            Whether to show on stderr how many rows have been predicted, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit.

        Returns
        -------
        A series or array like `X` (and with its pandas index).

        """
        frame, scores = self._scores(X, progress)
        return native_series(self._rule.loss.mean_func(scores[:, 0]), name=None, like=frame)
