"""Linear discriminants, which predict a sample's class with linear functions.

The three discriminants are naive Bayes and two softmax regressions on standardized inputs. One
regression takes small steps, and the other takes large steps. AdaGrad trains both regressions
(Duchi, Hazan and Singer 2011), with one sum of squared gradients for all weights of a regression.
Naive Bayes assumes normally distributed inputs with the same variances in all classes. So the
log-odds of naive Bayes are linear functions of the inputs, except where squared distances are
clipped (`LARGEST_SQUARE`).

The discriminants read raw inputs, estimate the means and variances of inputs, and ignore missing
values. For a categorical input, the regressions have a weight for each level, and naive Bayes a
count. A hash maps each level to a row of a table, so levels may share a row (Weinberger et al.
2009). A sample of weight w counts w times in means and variances, and its gradients are multiplied
by w. Outliers have a bounded effect on means and variances (`count_value`).

After a drift, steps are reset to their initial size, and naive Bayes forgets its samples. The
regressions keep their weights, because some drifts move the boundaries between classes only a
little.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..compiling.kernels import always_inline, kernel, link_by_name, set_entries
from ..elementary import FEW, logarithms, normalize_logs
from ..limits import LEAST_LEVEL
from ..partitions.mondrian.transforms import hash_of
from ..records import Bounds, Float64, Float64s, Floats, Int64, Int64s, Record
from ..records.record import derived, entry, sized, stored, transient
from .learned import Learned, keep

# Means and variances of streams, robust to outliers and able to follow changes.
#
# A value more than about 32 standard deviations from the mean is an outlier. An outlier does not
# change the mean, and adds 30 variances to the sum of squares. If one value in a hundred is an
# outlier of any size, the variance is 1.4 times the variance of the other values. If all values are
# outliers, for example after a change of units, the variance grows until the values are no longer
# outliers. In this case, the variance grows by a factor of up to 2^29 while the number of values
# doubles. If a value of a binary input occurs once in 100 values, it is not an outlier. Each time
# the number of values has doubled, the later half's variance is compared with the overall variance.
# If the later half's variance is less than a fifth of the overall variance, earlier values are
# forgotten. So outliers at the start, values before a large change of the mean, and values in
# larger units are forgotten. For a time stamp that grows steadily, the ratio of the variances is a
# quarter, so no value is forgotten. The moments of the later half are stored separately.


# An input varies if its sum of squared deviations is larger than this.
VARIES = 1e-280
# FAR_COUNTS variances replace a squared distance of more than FAR_VARIANCES variances.
FAR_VARIANCES = 1000.0
FAR_COUNTS = 30.0
# Values before the later half are forgotten if the overall variance exceeds SHRUNK times the later
# half's variance. The later half must have at least LEAST_LATER values.
SHRUNK = 5.0
LEAST_LATER = 8.0


@always_inline
def count_value(
    counts: Float64s, means: Float64s, squares: Float64s, i: int, value: float, weight: float
) -> bool:
    """Update the total weight, the mean and the sum of squared deviations of values.

    The update is Welford's (1962), with weights (West 1979). Return whether the value is not an
    outlier.
    """
    n, square = counts[i], squares[i]
    mean = means[i] if n > 0.0 else value
    before = value - mean
    counts[i] = n + weight
    if square > VARIES and before * before * n > FAR_VARIANCES * square:
        squares[i] = square + weight * FAR_COUNTS * square / n
        return False
    moved = mean + weight * before / (n + weight)
    means[i] = moved
    squares[i] = square + weight * before * (value - moved)
    return True


@always_inline
def end_half(counts: Float64s, means: Float64s, squares: Float64s, i: int, later: int) -> bool:
    """Forget earlier values if the later half's variance is much smaller, and start a new half.

    The moments of the later half are at index `later`. Return whether the values before the later
    half have been forgotten.
    """
    n, square = counts[later], squares[later]
    has_shrunk = SHRUNK * square * counts[i] < squares[i] * n
    forgets = has_shrunk and square > VARIES and n >= LEAST_LATER
    if forgets:
        counts[i], means[i], squares[i] = n, means[later], square
    counts[later] = squares[later] = 0.0
    return forgets


# Rows of `LinearDiscriminantsRecord.predicted`.
SMALL_STEPS = 0
LARGE_STEPS = 1
NAIVE_BAYES = 2
N_DISCRIMINANTS = 3

# Learning rates of the two regressions.
SMALL_RATE = 0.1
LARGE_RATE = 0.8
# Bound on standardized values. Bound on each input's squared distance from a class's mean, in
# variances within classes.
LARGEST_STANDARDIZED = 3.0
LARGEST_SQUARE = 100.0
# Least variance within classes, as a fraction of the input's variance.
LEAST_WITHIN = 0.01
# Pseudo-count of samples in each class, for the frequencies of classes.
CLASS_PRIOR = 0.5
# Number of rows that the levels of all categorical inputs share; a power of 2.
LEVEL_ROWS = 2048
# Least divisor for a level's share of the samples. The divisor is below any sample's weight, and
# only avoids 0 / 0.
LEAST_COUNT = 1e-40
# Pseudo-count of samples in each class, for the frequencies of levels. The pseudo-samples have the
# level frequencies over all classes.
LEVEL_PRIOR = 1.0


class LinearDiscriminantsRecord(Record):
    """A naive Bayes classifier, and two softmax regressions on standardized inputs.

    Arrays over the inputs have rows of length `columns`. Column 0 has intercepts or total weights
    of samples, and column i belongs to input i - 1. Arrays over classes and inputs have a row for
    each class.
    """

    # Current numbers of classes and inputs.
    n_classes: Int64
    n_inputs: Int64
    # Length of a row over the inputs. Number of classes that the arrays have room for.
    columns: Int64
    width: Int64
    # For each input: the total weight of its values, their mean, and the sum of squared deviations
    # from the mean. Column 0 of `counts` has the total weight of samples. The second row of each
    # array is for the later half of the values. `within` has the sum of squared deviations from the
    # means of the classes.
    counts: Float64s = sized(2, "columns")
    means: Float64s = sized(2, "columns")
    squares: Float64s = sized(2, "columns")
    within: Float64s = sized(1, "columns")
    # Weights of the regressions with small and with large steps, and each regression's sum of
    # squared gradients.
    small_weights: Float64s = sized("width", "columns")
    large_weights: Float64s = sized("width", "columns")
    small_squares: Float64
    large_squares: Float64
    # For each class and input: the total weight of the values, and their mean. Column 0 of
    # `class_counts` has the total weight of the samples of each class.
    class_counts: Float64s = sized("width", "columns")
    class_means: Float64s = sized("width", "columns")
    # Number and positions of the categorical inputs. The three arrays of levels have a row for each
    # value of the hash, and a column for each class. The arrays have both regressions' weights, and
    # the total weight of samples.
    n_categories: Int64 = stored(Bounds(0, below="columns"))
    categories: Int64s = derived()
    small_levels: Float64s = sized("n_level_rows", "width")
    large_levels: Float64s = sized("n_level_rows", "width")
    level_counts: Float64s = sized("n_level_rows", "width")
    # For the last sample, if there are categorical inputs: all inputs (NaN for categories), and the
    # start of each level's row (-1 if missing).
    numbers: Float64s = transient("columns")
    level_starts: Int64s = transient("n_categories")
    # For each level of the last sample: total weight of the samples with the level.
    level_totals: Float64s = transient("n_categories")
    # The last sample's inputs in standard deviations from their means: 0 if missing, 1 in column 0.
    # The inverses of the inputs' variances within classes, and the inverses of the inputs' standard
    # deviations: 0 if missing.
    standardized: Float64s = transient("columns")
    precisions: Float64s = transient("columns")
    rates: Float64s = transient("columns")
    # Predictions for the last sample: N_DISCRIMINANTS rows of `width` probabilities.
    predicted: Float64s = transient(N_DISCRIMINANTS, "width")
    # Addresses of functions that only models with categorical inputs compile.
    take_apart: Callable[[Record, Float64s], Float64s] = entry()
    add_levels: Callable[[Record, int], int] = entry()
    move_levels: Callable[[Record, Float64s, int, float], int] = entry()
    count_levels: Callable[[Record, int, float], int] = entry()

    def n_level_rows(self) -> int:
        """Return the number of rows in the arrays of levels."""
        return LEVEL_ROWS if self.n_categories > 0 else 0

    def standardize(self, values: Float64s) -> None:
        """Write a sample's standardized inputs, and each input's precision and rate."""
        counts, means, squares, within = self.counts, self.means, self.squares, self.within
        standardized, precisions, rates = self.standardized, self.precisions, self.rates
        standardized[0] = 1.0
        for i in range(1, self.n_inputs + 1):
            value, n, square = values[i - 1], counts[i], squares[i]
            known = square > VARIES and value == value
            precisions[i] = n / max(within[i], LEAST_WITHIN * square) if known else 0.0
            rates[i] = math.sqrt(n / square) if known else 0.0
            deviation = (value - means[i]) * rates[i] if known else 0.0
            standardized[i] = min(max(deviation, -LARGEST_STANDARDIZED), LARGEST_STANDARDIZED)

    def level_score(self, weights: Float64s, label: int) -> float:
        """Return the sum of a class's weights for the levels of the last sample."""
        total = 0.0
        for c in range(self.n_categories):
            start = self.level_starts[c]
            if start >= 0:
                total += weights[start + label]
        return total

    def level_evidence(self, label: int) -> float:
        """Return log p(levels | class) - log p(levels) for the levels of the last sample."""
        evidence = 0.0
        columns, counts = self.columns, self.level_counts
        for c in range(self.n_categories):
            start, column = self.level_starts[c], 1 + self.categories[c]
            share = self.level_totals[c] / max(self.counts[column], LEAST_COUNT)
            # A level without learned samples provides no evidence, because its share is 0.
            if share > 0.0:
                of_both = counts[start + label]
                of_class = self.class_counts[columns * label + column]
                # Because of the prior, the rate of a class without samples is the level's share
                # among all classes.
                rate = (of_both + LEVEL_PRIOR * share) / (of_class + LEVEL_PRIOR)
                evidence += math.log(rate / share)
        return evidence


# The next four functions are compiled only for models with categorical inputs, to save compile
# time.


@link_by_name
def take_apart(discriminants: LinearDiscriminantsRecord, values: Float64s) -> Float64s:
    """Find the rows of a sample's levels, and return the inputs with NaN for categories."""
    numbers = discriminants.numbers
    for i in range(discriminants.n_inputs):
        numbers[i] = values[i]
    for c in range(discriminants.n_categories):
        i = discriminants.categories[c]
        code = values[i]
        start, total = -1, 0.0
        if code >= LEAST_LEVEL:
            start = (hash_of(code, i) & (LEVEL_ROWS - 1)) * discriminants.width
            for k in range(discriminants.n_classes):
                total += discriminants.level_counts[start + k]
        discriminants.level_starts[c] = start
        discriminants.level_totals[c] = total
        numbers[i] = math.nan
    return numbers


@link_by_name
def add_levels(discriminants: LinearDiscriminantsRecord, k: int) -> int:
    """Add the contributions of the last sample's levels to a class's logits, and return 0."""
    width, predicted = discriminants.width, discriminants.predicted
    of_small = discriminants.level_score(discriminants.small_levels, k)
    of_large = discriminants.level_score(discriminants.large_levels, k)
    predicted[width * SMALL_STEPS + k] += of_small
    predicted[width * LARGE_STEPS + k] += of_large
    predicted[width * NAIVE_BAYES + k] += discriminants.level_evidence(k)
    return 0


@link_by_name
def move_levels(
    discriminants: LinearDiscriminantsRecord, weights: Float64s, label: int, by: float
) -> int:
    """Add `by` to a class's weights for the levels of the last sample, and return 0."""
    for c in range(discriminants.n_categories):
        start = discriminants.level_starts[c]
        if start >= 0:
            weights[start + label] += by
    return 0


@link_by_name
def count_levels(discriminants: LinearDiscriminantsRecord, label: int, weight: float) -> int:
    """Add the last sample to the counts of its levels, and return 0."""
    counts, class_counts = discriminants.counts, discriminants.class_counts
    for c in range(discriminants.n_categories):
        start, column = discriminants.level_starts[c], 1 + discriminants.categories[c]
        if start >= 0:
            discriminants.level_counts[start + label] += weight
            class_counts[discriminants.columns * label + column] += weight
            counts[column] += weight
    return 0


@always_inline
def score(weights: Float64s, standardized: Float64s, n_inputs: int) -> float:
    """Return the intercept plus the sum of all inputs times their weights."""
    total = weights[0]
    for i in range(1, n_inputs + 1):
        total += weights[i] * standardized[i]
    return total


@always_inline
def squared_distance(
    discriminants: LinearDiscriminantsRecord, values: Float64s, counts: Float64s, means: Float64s
) -> float:
    """Return a sample's squared distance from a class's mean, in units of variances within classes.

    If the class has no value of an input, the mean over all classes replaces the class's mean.
    """
    overall, precisions = discriminants.means, discriminants.precisions
    distance = 0.0
    for i in range(1, discriminants.n_inputs + 1):
        mean = means[i] if counts[i] > 0.0 else overall[i]
        deviation = values[i - 1] - mean
        weighed = min(deviation * deviation * precisions[i], LARGEST_SQUARE)
        distance += weighed if precisions[i] > 0.0 else 0.0
    return distance


@kernel
def predict(discriminants: LinearDiscriminantsRecord, values: Float64s) -> None:
    """Predict the class of a sample from its raw inputs."""
    if discriminants.n_categories > 0:
        values = discriminants.take_apart(discriminants, values)
    discriminants.standardize(values)
    n_classes, n_inputs = discriminants.n_classes, discriminants.n_inputs
    columns, width = discriminants.columns, discriminants.width
    standardized, predicted = discriminants.standardized, discriminants.predicted
    small_weights, large_weights = discriminants.small_weights, discriminants.large_weights
    class_counts, class_means = discriminants.class_counts, discriminants.class_means
    by_small = predicted.part(width * SMALL_STEPS, width)
    by_large = predicted.part(width * LARGE_STEPS, width)
    by_bayes = predicted.part(width * NAIVE_BAYES, width)
    total = discriminants.counts[0] + CLASS_PRIOR * n_classes
    for k in range(n_classes):
        share = (class_counts[columns * k] + CLASS_PRIOR) / total
        by_bayes[k] = share if n_classes > FEW else math.log(share)
    if n_classes > FEW:
        logarithms(by_bayes, n_classes, by_bayes)
    for k in range(n_classes):
        counts = class_counts.part(columns * k, columns)
        means = class_means.part(columns * k, columns)
        by_small[k] = score(small_weights.part(columns * k, columns), standardized, n_inputs)
        by_large[k] = score(large_weights.part(columns * k, columns), standardized, n_inputs)
        distance = squared_distance(discriminants, values, counts, means)
        # log p(k) + log p(x | k), without terms that all classes share, because they cancel.
        by_bayes[k] -= 0.5 * distance
        if discriminants.n_categories > 0:
            discriminants.add_levels(discriminants, k)
    for e in range(N_DISCRIMINANTS):
        normalize_logs(predicted.part(width * e, width), n_classes)


@always_inline
def descend(discriminants: LinearDiscriminantsRecord, e: int, label: int, weight: float) -> None:
    """Update a softmax regression with the label of the last predicted sample."""
    is_small, width = e == SMALL_STEPS, discriminants.width
    weights = discriminants.small_weights if is_small else discriminants.large_weights
    levels = discriminants.small_levels if is_small else discriminants.large_levels
    squares = discriminants.small_squares if is_small else discriminants.large_squares
    rate = SMALL_RATE if is_small else LARGE_RATE
    probabilities = discriminants.predicted.part(width * e, width)
    n_classes, n_inputs = discriminants.n_classes, discriminants.n_inputs
    columns, standardized = discriminants.columns, discriminants.standardized
    sizes = 1.0
    for i in range(1, n_inputs + 1):
        sizes += standardized[i] * standardized[i]
    for c in range(discriminants.n_categories):
        # The regression treats a present level as an input of value 1.
        sizes += 1.0 if discriminants.level_starts[c] >= 0 else 0.0
    errors = 0.0
    for k in range(n_classes):
        error = probabilities[k] - (1.0 if k == label else 0.0)
        errors += error * error
    # Let z be the standardized inputs. The derivative of the log loss with respect to weight (k, i)
    # is error_k z_i, so all squared derivatives add up to `errors * sizes`. The division yields the
    # mean per input, including the intercept.
    squares += weight * weight * errors * sizes / (n_inputs + 1)
    # AdaGrad: rate / sqrt(1 + sum of squares) times the gradient.
    step = weight * rate / math.sqrt(1.0 + squares)
    for k in range(n_classes):
        move = step * (probabilities[k] - (1.0 if k == label else 0.0))
        row = weights.part(columns * k, columns)
        for i in range(n_inputs + 1):
            row[i] -= move * standardized[i]
        if discriminants.n_categories > 0:
            discriminants.move_levels(discriminants, levels, k, -move)
    if is_small:
        discriminants.small_squares = squares
    else:
        discriminants.large_squares = squares


@always_inline
def update_moments(
    discriminants: LinearDiscriminantsRecord, values: Float64s, label: int, weight: float
) -> None:
    """Update the moments of the inputs, over all classes and within the label's class."""
    columns = discriminants.columns
    class_counts = discriminants.class_counts.part(columns * label, columns)
    class_means = discriminants.class_means.part(columns * label, columns)
    counts, means = discriminants.counts, discriminants.means
    squares, all_within = discriminants.squares, discriminants.within
    class_counts[0] += weight
    counts[0] += weight
    for i in range(1, discriminants.n_inputs + 1):
        value = values[i - 1]
        if value != value:
            continue
        mean = means[i] if counts[i] > 0.0 else value
        if count_value(counts, means, squares, i, value, weight):
            # A class starts with a pseudo-value of weight 1, the mean over all classes. So the
            # first value alone does not determine the mean of the class.
            is_known = class_counts[i] > 0.0
            class_n = (class_counts[i] if is_known else 1.0) + weight
            class_mean = class_means[i] if is_known else mean
            moved = class_mean + weight * (value - class_mean) / class_n
            all_within[i] += weight * (value - class_mean) * (value - moved)
            class_counts[i], class_means[i] = class_n, moved
        later = columns + i
        count_value(counts, means, squares, later, value, weight)
        if 2.0 * counts[later] >= counts[i] and end_half(counts, means, squares, i, later):
            # The classes also forget their values of this input, because otherwise their means
            # would lag behind. The variance within classes restarts at the input's variance.
            all_within[i] = squares[i]
            for k in range(discriminants.n_classes):
                discriminants.class_counts[columns * k + i] = 0.0


@kernel
def learn(
    discriminants: LinearDiscriminantsRecord, values: Float64s, label: int, weight: float
) -> None:
    """Update the discriminants with the class and the raw inputs of the last predicted sample."""
    descend(discriminants, SMALL_STEPS, label, weight)
    descend(discriminants, LARGE_STEPS, label, weight)
    if discriminants.n_categories > 0:
        values = discriminants.numbers
        discriminants.count_levels(discriminants, label, weight)
    update_moments(discriminants, values, label, weight)


# Names of the arrays of levels.
_OF_LEVELS = ("small_levels", "large_levels", "level_counts")


class LinearDiscriminants(Learned[LinearDiscriminantsRecord]):
    """The memory of discriminants, which grows with the numbers of classes and inputs."""

    _KIND = LinearDiscriminantsRecord

    def __init__(self) -> None:
        super().__init__(columns=1)

    def reserve(
        self, width: int, n_inputs: int, predicted: Floats, categories: Sequence[int] = ()
    ) -> None:
        """Reserve memory for classes and inputs, and keep the learned state.

        Parameters
        ----------
        width
            Number of classes to reserve memory for.
        n_inputs
            Number of inputs to reserve memory for.
        predicted
            Array that predictions are written to, with `width` columns.
        categories
            Positions of the categorical inputs.

        """
        record = self.record
        record.width, record.columns, record.n_categories = width, 1 + n_inputs, len(categories)
        learned = self._zeros()
        for name, new in learned.items():
            # Later columns are not copied, because they may belong to inputs whose insertion was
            # undone.
            n_columns = width if name in _OF_LEVELS else 1 + record.n_inputs
            keep(new, self.learned[name][:, :n_columns])
        self.learned = learned
        self.memory.own("categories", np.array(categories, dtype=np.int64))
        if categories:
            set_entries(record, take_apart, add_levels, move_levels, count_levels)
        self.show(predicted)

    def begin_at_zero(self, inputs: Sequence[int]) -> None:
        """Treat new numerical inputs as 0 in all earlier samples."""
        counts, class_counts = self.learned["counts"], self.learned["class_counts"]
        for i in inputs:
            counts[0, 1 + i] = counts[0, 0]
            # The count of a class with samples includes a pseudo-value, as in `update_moments`.
            class_counts[:, 1 + i] = class_counts[:, 0] + (class_counts[:, 0] > 0.0)

    def follow_drift(self) -> None:
        """Reset steps to their initial size, and forget the samples of naive Bayes.

        Keep the regressions' weights and the moments of numerical inputs. A second call right after
        the first changes nothing.
        """
        learned = self.learned
        self.record.small_squares = self.record.large_squares = 0.0
        learned["class_counts"][:] = 0.0
        # As in `update_moments`, the variance within classes starts at the input's variance.
        learned["within"][0] = learned["squares"][0]
        learned["level_counts"][:] = 0.0
        learned["counts"][0, 1 + self.memory.arrays["categories"]] = 0.0
