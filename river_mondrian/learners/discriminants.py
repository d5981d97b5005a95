"""Linear discriminants, learned online: the class of a sample by lines.

Two softmax regressions of standardized inputs, trained by gradient descent whose steps shrink with
the sum of the gradients' squares (AdaGrad, Duchi, Hazan and Singer 2011, with one sum for all
weights), one with small steps and one with large ones; and naive Bayes with normal inputs whose
variances all classes share, which is linear, too. They take raw inputs, estimate means and
variances themselves, and leave out missing values. An input that is a category has a weight or a
count for each level, in tables whose rows levels share by a hash (Weinberger et al. 2009). A
sample's weight is a factor of its gradients, and what it counts for in means and variances, which
wild values do not decide (`count_value`).

After a drift steps are as large as at first again, so that lines follow boundaries that jump, and
naive Bayes knows later samples only. The lines themselves stay: some drifts turn them a little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..compiling.kernels import inlined, kernel
from ..elementary import FEW, logarithms, normalize_logs
from ..limits import LEAST_LEVEL
from ..partitions.mondrian.transforms import hash_of
from ..records import Bounds, Float64, Float64s, Int64, Int64s, Record
from ..records.record import derived, sized, stored, transient
from .learned import Learned, keep

# Means and variances of streams that hold against wild values and follow what changes.
#
# A value more than 32 standard deviations from the mean does not count in it, and in the sum of
# squares as 30 variances. While one of a hundred values is such, of whatever size, the variance
# is 1.4 times that of the others. Where all are, as after a change of units, it becomes 2^29
# times as large while the number of values doubles, until they count again. What is rare counts
# in full as long as it comes once in 1,000 values.
#
# Whenever the number of values has doubled, the variance of the later half is looked at. Where it
# is less than a fifth of the variance of all, what was before is forgotten: wild values at the
# start, larger units, or an earlier level. It is a quarter for a time stamp that grows steadily.
# The moments of the later half are in rows of their own.


# Sum of squares above which something counts as varying.
VARIES = 1e-280
# A value whose squared distance from the mean is more variances counts as so many.
FAR = 1000.0
FAR_COUNTS = 30.0
# What is before the later half is forgotten where its variance is less by this factor, and it has
# at least so many values.
SHRUNK = 5.0
LEAST_LATER = 8.0


@inlined
def count_value(
    counts: Float64s, means: Float64s, squares: Float64s, place: int, value: float, weight: float
) -> bool:
    """Update the weight of values, their mean and the sum of squared deviations from it.

    By Welford 1962, with weights as West 1979 has them. Returns whether the value is not too far.
    """
    n, own = counts[place], squares[place]
    mean = means[place] if n > 0.0 else value
    before = value - mean
    counts[place] = n + weight
    if own > VARIES and before * before * n > FAR * own:
        squares[place] = own + weight * FAR_COUNTS * own / n
        return False
    moved = mean + weight * before / (n + weight)
    means[place] = moved
    squares[place] = own + weight * before * (value - moved)
    return True


@inlined
def end_half(counts: Float64s, means: Float64s, squares: Float64s, place: int, later: int) -> bool:
    """End the later half of the values, whose moments are at `later`.

    Returns whether what was before has been forgotten.
    """
    n, own = counts[later], squares[later]
    has_shrunk = SHRUNK * own * counts[place] < squares[place] * n
    forgets = has_shrunk and own > VARIES and n >= LEAST_LATER
    if forgets:
        counts[place], means[place], squares[place] = n, means[later], own
    counts[later] = squares[later] = 0.0
    return forgets


Array = NDArray[np.float64]

# Rows of `Discriminants.predicted`.
SMALL_STEPS = 0
LARGE_STEPS = 1
NAIVE_BAYES = 2
N_DISCRIMINANTS = 3

# Size of the steps of either regression.
SMALL_RATE = 0.1
LARGE_RATE = 0.8
# Largest standardized value, and largest squared distance from a class's mean in one input.
LARGEST = 3.0
FARTHEST = 100.0
# Least variance within classes, as a part of an input's own.
LEAST_WITHIN = 0.01
# Pseudo-count of a class.
PRIOR = 0.5
# Rows that the levels of all categories share; a power of 2.
LEVEL_ROWS = 2048
# Less weight than any sample has.
LEAST_COUNT = 1e-40
# How many samples the shares of levels among all classes count as among those of a class.
LEVEL_PRIOR = 1.0


class Discriminants(Record):
    """Two softmax regressions and a naive Bayes over standardized inputs.

    A row of an input's numbers is `columns` long: column 0 is of the samples or of the intercept,
    column i of input i - 1. Matrices have such a row for each class.
    """

    # Number of classes and of inputs so far.
    n_classes: Int64
    n_inputs: Int64
    # Length of a row of inputs' numbers, and number of classes for which a row has room.
    columns: Int64
    width: Int64
    # Of each input: the weight of its values (of samples in column 0), their mean, the sum of
    # squared deviations from it, each in a row behind which there is one of the later values only;
    # and the sum of those from the mean of the own class, which for each value are those of the
    # values before it.
    counts: Float64s = sized(2, "columns")
    means: Float64s = sized(2, "columns")
    squares: Float64s = sized(2, "columns")
    within: Float64s = sized(1, "columns")
    # Weights of the regressions with small and with large steps, and the sums of their squared
    # gradients.
    small_weights: Float64s = sized("width", "columns")
    large_weights: Float64s = sized("width", "columns")
    small_squares: Float64
    large_squares: Float64
    # Of each class: the weight of values of each input (of samples in column 0), and their mean.
    class_counts: Float64s = sized("width", "columns")
    class_means: Float64s = sized("width", "columns")
    # Inputs that are categories: how many, and which. Of levels, a row for each class: weights of
    # the regressions, and the weight of samples.
    n_categories: Int64 = stored(Bounds(0, below="columns"))
    categories: Int64s = derived()
    small_levels: Float64s = sized("n_level_rows", "width")
    large_levels: Float64s = sized("n_level_rows", "width")
    level_counts: Float64s = sized("n_level_rows", "width")
    # Of the last sample, where there are categories: its inputs, categories missing; and where the
    # rows of its levels begin, -1 where one is missing.
    numbers: Float64s = transient("columns")
    level_places: Int64s = transient("n_categories")
    # The weight of the samples of each of these levels.
    level_totals: Float64s = transient("n_categories")
    # Of the last sample: inputs as standard deviations from their mean, 0 where missing, 1 in
    # column 0; and the inverse of their variance within classes, 0 where missing.
    standardized: Float64s = transient("columns")
    precisions: Float64s = transient("columns")
    # What has been predicted of the last sample: N_DISCRIMINANTS rows of `width` probabilities.
    predicted: Float64s = transient(N_DISCRIMINANTS, "width")

    def n_level_rows(self) -> int:
        """Return how many rows of levels there are."""
        return LEVEL_ROWS if self.n_categories > 0 else 0

    def standardize(self, values: Float64s) -> None:
        """Standardize a sample's inputs."""
        counts, means, squares, within = self.counts, self.means, self.squares, self.within
        standardized, precisions = self.standardized, self.precisions
        standardized[0] = 1.0
        for i in range(1, self.n_inputs + 1):
            value, n, square = values[i - 1], counts[i], squares[i]
            known = square > VARIES and value == value
            precisions[i] = n / max(within[i], LEAST_WITHIN * square) if known else 0.0
            deviation = (value - means[i]) * math.sqrt(n / square) if known else 0.0
            standardized[i] = min(max(deviation, -LARGEST), LARGEST)

    def take_apart(self, values: Float64s) -> Float64s:
        """Find the rows of a sample's levels; returns its numbers."""
        numbers = self.numbers
        for i in range(self.n_inputs):
            numbers[i] = values[i]
        for c in range(self.n_categories):
            i = self.categories[c]
            code = values[i]
            place, total = -1, 0.0
            if code >= LEAST_LEVEL:
                place = (hash_of(code, i) & (LEVEL_ROWS - 1)) * self.width
                for k in range(self.n_classes):
                    total += self.level_counts[place + k]
            self.level_places[c] = place
            self.level_totals[c] = total
            numbers[i] = math.nan
        return numbers

    def level_score(self, weights: Float64s, label: int) -> float:
        """Sum what the last sample's levels add to the value of a class's line."""
        found = 0.0
        for c in range(self.n_categories):
            place = self.level_places[c]
            if place >= 0:
                found += weights[place + label]
        return found

    def level_evidence(self, label: int) -> float:
        """Return log p(levels | class) - log p(levels) of the last sample's levels."""
        found = 0.0
        columns, counts = self.columns, self.level_counts
        for c in range(self.n_categories):
            place, column = self.level_places[c], 1 + self.categories[c]
            share = self.level_totals[c] / max(self.counts[column], LEAST_COUNT)
            # Where the level is new, it tells nothing.
            if share > 0.0:
                of_both = counts[place + label]
                of_class = self.class_counts[columns * label + column]
                # A class without samples has the share of the level among all.
                rate = (of_both + LEVEL_PRIOR * share) / (of_class + LEVEL_PRIOR)
                found += math.log(rate / share)
        return found

    def move_levels(self, weights: Float64s, label: int, by: float) -> None:
        """Add to a class's weights of the last sample's levels."""
        for c in range(self.n_categories):
            place = self.level_places[c]
            if place >= 0:
                weights[place + label] += by

    def count_levels(self, label: int, weight: float) -> None:
        """Count the last sample's levels."""
        counts, class_counts = self.counts, self.class_counts
        for c in range(self.n_categories):
            place, i = self.level_places[c], 1 + self.categories[c]
            if place >= 0:
                self.level_counts[place + label] += weight
                class_counts[self.columns * label + i] += weight
                counts[i] += weight


@inlined
def score(weights: Float64s, standardized: Float64s, n_inputs: int) -> float:
    """Return the value of a line: the intercept and each input times its weight."""
    found = weights[0]
    for i in range(1, n_inputs + 1):
        found += weights[i] * standardized[i]
    return found


@inlined
def squared_distance(
    discriminants: Discriminants, values: Float64s, counts: Float64s, means: Float64s
) -> float:
    """Return the squared distance from a class in standard deviations within classes.

    An input of which the class has no value has its mean over all classes.
    """
    overall, precisions = discriminants.means, discriminants.precisions
    distance = 0.0
    for i in range(1, discriminants.n_inputs + 1):
        mean = means[i] if counts[i] > 0.0 else overall[i]
        deviation = values[i - 1] - mean
        weighed = min(deviation * deviation * precisions[i], FARTHEST)
        distance += weighed if precisions[i] > 0.0 else 0.0
    return distance


@kernel
def predict(discriminants: Discriminants, values: Float64s) -> None:
    """Predict the class of a sample's raw inputs."""
    if discriminants.n_categories > 0:
        values = discriminants.take_apart(values)
    discriminants.standardize(values)
    n_classes, n_inputs = discriminants.n_classes, discriminants.n_inputs
    columns, width = discriminants.columns, discriminants.width
    standardized, predicted = discriminants.standardized, discriminants.predicted
    small_weights, large_weights = discriminants.small_weights, discriminants.large_weights
    class_counts, class_means = discriminants.class_counts, discriminants.class_means
    by_small = predicted.part(width * SMALL_STEPS, width)
    by_large = predicted.part(width * LARGE_STEPS, width)
    by_bayes = predicted.part(width * NAIVE_BAYES, width)
    total = discriminants.counts[0] + PRIOR * n_classes
    for k in range(n_classes):
        share = (class_counts[columns * k] + PRIOR) / total
        by_bayes[k] = share if n_classes > FEW else math.log(share)
    if n_classes > FEW:
        logarithms(by_bayes, n_classes, by_bayes)
    for k in range(n_classes):
        counts = class_counts.part(columns * k, columns)
        means = class_means.part(columns * k, columns)
        by_small[k] = score(small_weights.part(columns * k, columns), standardized, n_inputs)
        by_large[k] = score(large_weights.part(columns * k, columns), standardized, n_inputs)
        distance = squared_distance(discriminants, values, counts, means)
        # log p(k) + log p(x | k), but for what all classes have in common.
        by_bayes[k] -= 0.5 * distance
        if discriminants.n_categories > 0:
            by_small[k] += discriminants.level_score(discriminants.small_levels, k)
            by_large[k] += discriminants.level_score(discriminants.large_levels, k)
            by_bayes[k] += discriminants.level_evidence(k)
    for e in range(N_DISCRIMINANTS):
        normalize_logs(predicted.part(width * e, width), n_classes)


@inlined
def descend(discriminants: Discriminants, e: int, label: int, weight: float) -> None:
    """Let a regression learn the class of the sample that has been predicted last."""
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
        # A level that is there is an input of 1.
        sizes += 1.0 if discriminants.level_places[c] >= 0 else 0.0
    errors = 0.0
    for k in range(n_classes):
        error = probabilities[k] - (1.0 if k == label else 0.0)
        errors += error * error
    # The gradient of the log loss by weight (k, i) is error_k z_i, so the sum of all squares is the
    # product of both sums; over the number of features it is that of one weight per class.
    squares += weight * weight * errors * sizes / (n_inputs + 1)
    # AdaGrad: rate / sqrt(1 + sum of squares) times the gradient.
    step = weight * rate / math.sqrt(1.0 + squares)
    for k in range(n_classes):
        move = step * (probabilities[k] - (1.0 if k == label else 0.0))
        row = weights.part(columns * k, columns)
        for i in range(n_inputs + 1):
            row[i] -= move * standardized[i]
        if discriminants.n_categories > 0:
            discriminants.move_levels(levels, k, -move)
    if is_small:
        discriminants.small_squares = squares
    else:
        discriminants.large_squares = squares


@inlined
def update_moments(
    discriminants: Discriminants, values: Float64s, label: int, weight: float
) -> None:
    """Update the means and sums of squares of all inputs and of a class's."""
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
            # A class begins with one value of weight 1 at the mean of all.
            is_known = class_counts[i] > 0.0
            class_n = (class_counts[i] if is_known else 1.0) + weight
            class_mean = class_means[i] if is_known else mean
            moved = class_mean + weight * (value - class_mean) / class_n
            all_within[i] += weight * (value - class_mean) * (value - moved)
            class_counts[i], class_means[i] = class_n, moved
        later = columns + i
        count_value(counts, means, squares, later, value, weight)
        if 2.0 * counts[later] >= counts[i] and end_half(counts, means, squares, i, later):
            # The classes' values begin anew. All is known of the variance of the input only.
            all_within[i] = squares[i]
            for k in range(discriminants.n_classes):
                discriminants.class_counts[columns * k + i] = 0.0


@kernel
def learn(discriminants: Discriminants, values: Float64s, label: int, weight: float) -> None:
    """Let the discriminants learn the class of the sample predicted last, of these raw inputs."""
    descend(discriminants, SMALL_STEPS, label, weight)
    descend(discriminants, LARGE_STEPS, label, weight)
    if discriminants.n_categories > 0:
        values = discriminants.numbers
        discriminants.count_levels(label, weight)
    update_moments(discriminants, values, label, weight)


# Arrays of rows for levels.
_OF_LEVELS = ("small_levels", "large_levels", "level_counts")


class LinearDiscriminants(Learned[Discriminants]):
    """The memory of discriminants, which grows with classes and inputs."""

    _KIND = Discriminants

    def __init__(self) -> None:
        super().__init__(columns=1)

    def logits(self, values: Array) -> list[tuple[Array, Array]]:
        """Return the logits of the sample predicted last, for each row of `predicted`.

        Parameters
        ----------
        values
            Its raw inputs.

        Returns
        -------
        For each the logits without any input, shape (classes,), and what each input adds, shape
        (inputs, classes).

        """
        n, last = int(self.record.n_classes), slice(1, 1 + len(values))
        arrays = self.memory.arrays
        if self.record.n_categories > 0:
            values = arrays["numbers"][: len(values)]
        standardized, precisions = arrays["standardized"][last], arrays["precisions"][last]
        lines = [self.learned[name][:n] for name in ("small_weights", "large_weights")]
        found = [(own[:, 0], own[:, last].T * standardized[:, None]) for own in lines]
        counts, means = (self.learned[name][:n] for name in ("class_counts", "class_means"))
        # As `squared_distance` has it.
        centres = np.where(counts > 0.0, means, self.learned["means"][0])[:, last].T
        squares = np.minimum((values[:, None] - centres) ** 2 * precisions[:, None], FARTHEST)
        known = (precisions > 0.0)[:, None]
        start = np.log(counts[:, 0] + PRIOR)
        found.append((start, -0.5 * np.where(known, squares, 0.0)))
        for i, place in zip(arrays["categories"], arrays["level_places"], strict=True):
            # Without a level nothing is added.
            if place >= 0:
                of_level = self._of_level(int(i), int(place))
                for (_, added), own in zip(found, of_level, strict=True):
                    added[i] = own[:n]
        return found

    def _of_level(self, i: int, place: int) -> list[Array]:
        """Return what a level of the i-th input adds to the logits, for each row of `predicted`."""
        row = place // int(self.record.width)
        small, large, counts = (self.learned[name][row] for name in _OF_LEVELS)
        share = counts.sum() / max(self.learned["counts"][0, 1 + i], LEAST_COUNT)
        if share == 0.0:
            return [small, large, np.zeros_like(counts)]
        # As `level_evidence` has it.
        of_classes = self.learned["class_counts"][:, 1 + i]
        rates = (counts + LEVEL_PRIOR * share) / (of_classes + LEVEL_PRIOR)
        return [small, large, np.log(rates / share)]

    def reserve(
        self, width: int, n_inputs: int, predicted: Array, categories: Sequence[int] = ()
    ) -> None:
        """Make room for so many classes and inputs.

        What has been learned of the record's inputs stays.

        Parameters
        ----------
        width
            Number of classes.
        n_inputs
            Number of inputs for which there is to be room.
        predicted
            Where predictions go, of `width` columns.
        categories
            Inputs that are categories.

        """
        record = self.record
        record.width, record.columns, record.n_categories = width, 1 + n_inputs, len(categories)
        learned = self._zeros()
        for name, new in learned.items():
            # What a change has added that is undone is left out.
            n_columns = width if name in _OF_LEVELS else 1 + record.n_inputs
            keep(new, self.learned[name][:, :n_columns])
        self.learned = learned
        self.memory.own("categories", np.array(categories, dtype=np.int64))
        self.show(predicted)

    def begin_at_zero(self, inputs: Sequence[int]) -> None:
        """Let new inputs, which are no categories, have been 0 in all samples so far."""
        counts, class_counts = self.learned["counts"], self.learned["class_counts"]
        for i in inputs:
            counts[0, 1 + i] = counts[0, 0]
            # A class begins with one value.
            class_counts[:, 1 + i] = class_counts[:, 0] + (class_counts[:, 0] > 0.0)

    def follow_drift(self) -> None:
        """Let steps be as large as at first again, and naive Bayes know no sample.

        Lines and what is known of inputs stay. Doing it twice is doing it once.
        """
        learned = self.learned
        self.record.small_squares = self.record.large_squares = 0.0
        learned["class_counts"][:] = 0.0
        # As `update_moments` has it for one input.
        learned["within"][0] = learned["squares"][0]
        learned["level_counts"][:] = 0.0
        learned["counts"][0, 1 + self.memory.arrays["categories"]] = 0.0
