"""The records of the ridge regressions.

A *design* is a set of columns that are made of the inputs, with the sums of products over the
samples from which ridge regressions on them are solved. There are two: the one in use, and the one
that is being made of the rows that have been kept.
"""

from __future__ import annotations

from ...checks import LARGEST_SIZE
from ...records import Array, Bounds, Float64, Float64s, Int64, Int64s, Record
from ...records.record import derived, sized, stored, transient

# The ridge regressions: places in `Ridges.predicted`. The linear ones have the columns of the
# inputs themselves, the additive ones those of bends and products, too, the others waves besides.
LINEAR, LATE_LINEAR, LATEST_LINEAR, ADDITIVE, LATE_ADDITIVE, WAVES, LATE_WAVES = range(7)
# The same as `WAVES`, of the logarithms of targets.
LOG_WAVES = 7
N_PLAIN, N_RIDGES = 7, 8
NAMES = (
    *("linear", "late linear", "latest linear", "additive", "late additive"),
    *("waves", "late waves", "waves of logarithms"),
)
# One more is of the logarithm of the size of a prediction's error.
SIZES = N_RIDGES
N_SOLVED = N_RIDGES + 1

# Sums over samples, each with its part of the past that is left after each sample.
ALL, LATE, LATEST = range(3)
N_SUMS = 3
FORGETTING = (1.0, 0.998, 0.98)
# Of each regression its sums, and the last group of its columns.
SUMS = (ALL, LATE, LATEST, ALL, LATE, ALL, LATE, ALL, ALL)
OF_INPUTS, OF_BENDS, OF_WAVES = range(3)
GROUPS = (0, 0, 0, OF_BENDS, OF_BENDS, OF_WAVES, OF_WAVES, OF_WAVES, OF_BENDS)

# Places at which an input may bend; waves, and inputs that one has at most.
N_BENDS = 5
N_WAVES = 128
N_ARMS = 8

# Samples of which the products of columns are added together: they go through memory once.
N_HELD = 4

# A row that is kept begins with the target, the size of the error and the sample's weight; then
# come the inputs.
TARGET, SIZE, WEIGHT, FIRST_INPUT = range(4)

# Rows in the ring of the latest ones, and rows of these and of all that are measured at most; rows
# by which waves are examined, which are some of those.
N_LATEST = 512
N_MEASURED = 256
N_EXAMINED = 256

# More inputs than any model has.
LARGEST_ROOM = 1 << 25
# Most linear columns; most inputs that have bends, and that have products.
MOST_LINEAR = 96
MOST_BENT = 64
MOST_MULTIPLIED = 16
MOST_CANDIDATES = MOST_BENT * N_BENDS + MOST_MULTIPLIED * (MOST_MULTIPLIED - 1) // 2

# What stands for a second input: the column is the first one, or what that exceeds its knot by.
ITSELF, BEND = -1, -2

# What is happening to the design that is not in use.
IDLE, MEASURING, CHOOSING, DRAWING, REPLAYING = range(5)


class Design(Record):
    """Columns of a linear model, and sums of their products over samples.

    Column 0 is 1, then come `n_linear` inputs, up to column `n_additive` bends of an input and
    products of two, then waves. Each is centred and scaled. A triangle's row j has the products of
    column j and of columns 0 to j, so that the first columns' triangle begins that of all.
    """

    n_columns: Int64
    n_linear: Int64
    n_additive: Int64
    # Number of inputs it knows of.
    n_inputs: Int64
    # What is subtracted from targets; of their logarithms, where these begin and the unit.
    shift: Float64
    low: Float64
    unit: Float64
    # The largest logarithm that is predicted, and its opposite.
    most: Float64
    # What targets are at least and at most where they are replayed.
    fence: Float64
    upper_fence: Float64
    # Of each input: where it is 0 and the inverse of its unit, which is 0 where it has no column.
    centres: Float64s = sized("room")
    rates: Float64s = sized("room")
    # Of each input `N_BENDS` places, in its units, at which it may bend.
    bends: Float64s = sized("room", N_BENDS)
    # Of each input: how much it has explained, as a part of all.
    interest: Float64s = sized("room")
    # Of each wave, and one that may be: how many inputs it has, which, their factors, its phase.
    arms: Int64s = sized(N_WAVES + 1, bounds=Bounds(0, N_ARMS))
    arm_inputs: Int64s = sized(N_WAVES + 1, N_ARMS, bounds=Bounds(0, below="n_places"))
    arm_factors: Float64s = sized(N_WAVES + 1, N_ARMS)
    phases: Float64s = sized(N_WAVES + 1)
    # Of each column but waves: an input, another one or one of `BEND` and `ITSELF`, and where it
    # bends; of all its mean and the inverse of its standard deviation.
    firsts: Int64s = sized("capacity", bounds=Bounds(0, below="n_places"))
    seconds: Int64s = sized("capacity", bounds=Bounds(BEND, below="n_places"))
    knots: Float64s = sized("capacity")
    means: Float64s = sized("capacity")
    factors: Float64s = sized("capacity")
    # Of each sums their triangle, and of each regression the products of columns and targets.
    all_gram: Float64s = sized("n_pairs")
    late_gram: Float64s = sized("n_pairs")
    latest_gram: Float64s = sized("n_linear_pairs")
    moments: Float64s = sized(N_SOLVED, "capacity")
    # Number of columns for which there is room.
    capacity: Int64 = derived()
    # Number of inputs for which there is room.
    room: Int64 = derived()

    def n_pairs(self) -> int:
        """Return the length of the triangle of all columns."""
        return self.capacity * (self.capacity + 1) // 2

    def n_linear_pairs(self) -> int:
        """Return the length of the triangle of the linear columns."""
        n = 1 + min(self.room, MOST_LINEAR)
        return n * (n + 1) // 2

    def n_places(self) -> int:
        """Return a number that is more than the number of any input."""
        return max(self.room, 1)

    def gram(self, s: int) -> Float64s:
        """Return the triangle of one of the sums; the last has the linear columns only."""
        if s == ALL:
            return self.all_gram
        return self.late_gram if s == LATE else self.latest_gram

    def moments_of(self, k: int) -> Float64s:
        """Return a regression's products of columns and targets."""
        return self.moments.part(self.capacity * k, self.capacity)

    def width_of(self, k: int) -> int:
        """Return how many columns a regression has."""
        group = GROUPS[k]
        if group == OF_INPUTS:
            return 1 + self.n_linear
        return self.n_additive if group == OF_BENDS else self.n_columns


class Candidate(Record):
    """A column that may be chosen (see `Design`), and what it explains."""

    first: Int64
    second: Int64
    knot: Float64
    mean: Float64
    factor: Float64
    score: Float64


class Ridges(Record):
    """Ridge regressions of a target, and the rows that columns are made of."""

    n_inputs: Int64
    # Samples so far, in the order of which rows are kept.
    n_samples: Int64 = stored(Bounds(0, LARGEST_SIZE))
    # The design in use, and what is happening to the other one.
    active: Int64 = stored(Bounds(0, 1))
    stage: Int64 = stored(Bounds(IDLE, REPLAYING))
    # Inputs of it that have been measured, waves that have been drawn, or rows that have been
    # replayed; how many samples there were when the first or the last of these began, and rows of
    # all samples then; and the state of the draws.
    cursor: Int64 = stored(Bounds(0, LARGEST_SIZE))
    n_before: Int64
    kept_before: Int64
    draws: Int64
    # The number of samples at which the next design is begun, and how many later the one after.
    next_design: Int64 = stored(Bounds(0, LARGEST_SIZE))
    gap: Int64 = stored(Bounds(1, LARGEST_SIZE))
    # Of each regression: its weights in the design in use, the number of samples when it is solved
    # for next, the mean size of its errors of late, and how many of them in a row were too large.
    solutions: Float64s = sized(N_SOLVED, "capacity")
    next_solutions: Int64s = sized(N_SOLVED, bounds=Bounds(0, LARGEST_SIZE))
    scales: Float64s = sized(N_PLAIN)
    n_large: Int64s = sized(N_PLAIN, bounds=Bounds(0, LARGEST_SIZE))
    # Columns and weights of the latest samples, whose products the sums over all samples and over
    # those of late in the design in use lack so far, and how many these are.
    n_held: Int64 = stored(Bounds(0, N_HELD - 1))
    held: Float64s = sized(N_HELD, "capacity")
    held_weights: Float64s = sized(N_HELD)
    # Rows of all samples, one in `stride`, how many there are; and a ring of the latest ones.
    n_kept: Int64
    stride: Int64 = stored(Bounds(1, LARGEST_SIZE))
    kept: Float64s = sized("kept_capacity", "row_length")
    latest: Float64s = sized(N_LATEST, "row_length")
    # Of the rows by which columns are chosen: what is left of their targets.
    errors: Float64s = sized(2 * N_MEASURED)
    # Inputs, columns, numbers in a row and rows that there is room for.
    room: Int64 = stored(Bounds(0, LARGEST_ROOM))
    capacity: Int64 = derived()
    row_length: Int64 = derived()
    kept_capacity: Int64 = derived()
    # By input: whether it is no number.
    ignored: Int64s = derived()
    designs: Array[Design] = derived()
    # Of the last sample: inputs in their units, NaN where missing, the columns in either design,
    # the target for each regression, and what these have predicted.
    units: Float64s = transient("room")
    columns: Float64s = transient(2, "capacity")
    targets: Float64s = transient(N_SOLVED)
    predicted: Float64s = transient(N_RIDGES)
    # What the logarithm of the error's size is predicted to be.
    size: Float64 = transient()
    # For solving: a triangle and a vector; for choosing: numbers of rows and candidates.
    triangle: Float64s = transient("n_pairs")
    vector: Float64s = transient("capacity")
    values: Float64s = transient("n_values")
    row_units: Float64s = transient(N_EXAMINED, "room")
    candidates: Array[Candidate] = transient("n_candidates")

    def n_pairs(self) -> int:
        """Return the length of the triangle of all columns."""
        return self.capacity * (self.capacity + 1) // 2

    def n_values(self) -> int:
        """Return how many numbers of rows, or of columns, there may be."""
        return max(2 * N_MEASURED, self.capacity)

    def n_candidates(self) -> int:
        """Return how many candidates there may be."""
        return max(MOST_CANDIDATES, self.room)

    def held_row(self, i: int) -> Float64s:
        """Return the columns of a sample whose products are still to be added."""
        return self.held.part(self.capacity * i, self.capacity)

    def kept_row(self, i: int) -> Float64s:
        """Return the i-th row of those of all samples."""
        return self.kept.part(self.row_length * i, self.row_length)

    def latest_row(self, i: int) -> Float64s:
        """Return a row of the ring."""
        return self.latest.part(self.row_length * i, self.row_length)

    def solution(self, k: int) -> Float64s:
        """Return the weights of a regression."""
        return self.solutions.part(self.capacity * k, self.capacity)
