"""Random Fourier features of the Laplace and the Gaussian kernel."""

from __future__ import annotations

from ..arguments import check_integer, check_kernel, check_seed
from ..maps.fourier import FourierMap
from .kinds import ByFeature


class RandomFourierFeatures(ByFeature):
    """Random Fourier features of the Gaussian or the Laplace kernel.

    The kernel of two samples is the mean of cos(w . (x - y)) over random frequencies w, whose law
    is the kernel's Fourier transform[^1]: normal for the Gaussian kernel, Cauchy in each feature
    for the Laplace kernel. Each frequency gives two features, the cosine and the sine of w . x:
    their dot product is an unbiased estimate of the kernel, and 1 for a sample with itself. (With
    one cosine of a random phase per frequency it would be 1 on average only, and vary more for
    samples that are close[^2].)

    A feature of the input that is absent or NaN is 0. A feature may appear at any time and gets
    frequencies of its own, by its name and the seed: neither the order of keys nor the time at
    which they appear changes them. River's `RBFSampler` maps each feature alone instead, which
    makes an additive kernel.

    Parameters
    ----------
    n_components
        Number of features made, an even number: half as many frequencies. The standard error of
        the kernel is at most 1 / sqrt(n_components).
    kernel
        "gaussian" for exp(-gamma |x - y|_2^2) or "laplace" for exp(-lifetime |x - y|_1).
    lifetime
        Rate of the Laplace kernel, per unit of the features.
    gamma
        Rate of the Gaussian kernel, per squared unit of the features.
    seed
        Random seed for reproducibility.

    Notes
    -----
    Memory grows by 4 `n_components` bytes with each feature of the input, which is much for text.

    Examples
    --------

    >>> from river import datasets, evaluate, linear_model, metrics, optim, preprocessing
    >>> from river_mondrian import RandomFourierFeatures

    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | RandomFourierFeatures(gamma=1.0, seed=42)
    ...     | linear_model.LogisticRegression(optim.SGD(1.0))
    ... )
    >>> dataset = datasets.Bananas().take(2000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    >>> import pandas as pd
    >>> features = RandomFourierFeatures(n_components=2000, kernel="laplace", seed=42)
    >>> frame = pd.DataFrame({"a": [0.1, 0.0], "b": [0.0, 0.1]})
    >>> features.learn_many(frame)
    >>> features.gram(frame).round(1)[0, 1]  # exp(-0.2)
    np.float64(0.8)

    References
    ----------
    [^1]: Rahimi, A. and Recht, B. (2007). Random Features for Large-Scale Kernel Machines.
    Advances in Neural Information Processing Systems 20. Algorithm 1.
    [^2]: Sutherland, D. J. and Schneider, J. (2015). On the Error of Random Fourier Features.
    Uncertainty in Artificial Intelligence 31. Section 2.

    """

    def __init__(
        self,
        n_components: int = 100,
        kernel: str = "gaussian",
        lifetime: float = 1.0,
        gamma: float = 1.0,
        seed: int | None = None,
    ) -> None:
        check_integer("n_components", n_components, 2)
        if n_components % 2:
            raise ValueError(f"n_components must be even, got {n_components!r}")
        check_kernel(kernel, lifetime, gamma)
        check_seed(seed)
        self.n_components = n_components
        self.kernel = kernel
        self.lifetime = lifetime
        self.gamma = gamma
        self.seed = seed
        super().__init__()

    def _make(self, seed: int) -> FourierMap:
        rate = self.lifetime if self.kernel == "laplace" else self.gamma
        return FourierMap(seed, self.n_components, self.kernel, rate)
