"""The records of the ridge regressions.

A *design* is a set of columns computed from the inputs, with sums of the columns' products over the
samples. Ridge regressions on the columns are solved from these sums. One design is in use. At
times, a second design is made from stored rows, and replaces the design in use.
"""

from ...checks import LARGEST_SIZE
from ...records import Array, Bounds, Float64, Float64s, Int64, Int64s, Record
from ...records.record import derived, sized, stored, transient

# The ridge regressions: indices of `RidgeExpertsRecord.predicted`. Linear regressions have the
# inputs as columns. Additive regressions also have bends (hinge functions) and products. The other
# regressions also have waves (random Fourier features).
LINEAR, LATEST_LINEAR, ADDITIVE, LATE_ADDITIVE, WAVES = range(5)
# The same regression as `WAVES`, but for the logarithms of targets.
LOG_WAVES = 5
N_PLAIN, N_RIDGES = 5, 6
NAMES = (
    "linear",
    "latest linear",
    "additive",
    "late additive",
    "waves",
    "waves of logarithms",
)
# This regression predicts the logarithm of an error's size.
SIZES = N_RIDGES
N_SOLVED = N_RIDGES + 1

# Indices of sums over samples. Each new sample multiplies the old sums by their factors in
# `FORGETTING`.
ALL, LATE, LATEST = range(3)
N_SUMS = 3
FORGETTING = (1.0, 0.998, 0.98)
# For each regression: its sums, and the last group of its columns (inputs, bends or waves).
SUMS = (ALL, LATEST, ALL, LATE, ALL, ALL, ALL)
OF_INPUTS, OF_BENDS, OF_WAVES = range(3)
GROUPS = (OF_INPUTS, OF_INPUTS, OF_BENDS, OF_BENDS, OF_WAVES, OF_WAVES, OF_BENDS)

# Number of possible bends per input, number of waves, and largest number of inputs per wave.
N_BENDS = 5
N_WAVES = 128
N_ARMS = 8

# One pass over the sums adds the products of this number of samples, to save memory accesses.
N_HELD = 4

# Errors are clipped at FAR times their mean size, a mean over about N_OF_LATE recent errors. The
# first FIRST_ERRORS errors are not clipped.
FAR = 10.0
N_OF_LATE = 50.0
FIRST_ERRORS = 8

# A stored row has the target, the logarithm of the error's size, the sample's weight, and the
# inputs.
TARGET, SIZE, WEIGHT, FIRST_INPUT = range(4)

# Number of rows in the ring buffer of the latest rows. Inputs are measured on at most N_MEASURED
# latest rows and N_MEASURED rows of the whole stream. Waves are examined on at most N_EXAMINED
# measured rows.
N_LATEST = 512
N_MEASURED = 256
N_EXAMINED = 256

# Bound on the number of inputs.
LARGEST_ROOM = 1 << 25
# Largest number of linear columns. With more than MOST_BENT inputs, there are no bends or products.
# With more than MOST_MULTIPLIED inputs, there are no products.
MOST_LINEAR = 96
MOST_BENT = 64
MOST_MULTIPLIED = 16
MOST_CANDIDATES = MOST_BENT * N_BENDS + MOST_MULTIPLIED * (MOST_MULTIPLIED - 1) // 2

# Values of `Design.seconds` for columns without a second input. The column is the first input
# itself, or the first input's excess over the knot.
ITSELF, BEND = -1, -2

# Stages in the construction of the design that is not in use.
IDLE, MEASURING, CHOOSING, DRAWING, REPLAYING = range(5)


class Design(Record):
    """Columns of a linear model, and sums of their products over samples.

    Column 0 is 1. The next `n_linear` columns are inputs. The other columns before column
    `n_additive` are bends (hinge functions) and products of two inputs. The last columns are waves.
    All columns except column 0 are centred and scaled. Row j of a triangle has the products of
    column j with columns 0 to j. So the triangle of the first columns is a prefix of the whole
    triangle.
    """

    n_columns: Int64
    n_linear: Int64
    n_additive: Int64
    # Number of inputs when the design was made.
    n_inputs: Int64
    # Shift subtracted from targets; zero point and unit of the logarithms of targets.
    shift: Float64
    low: Float64
    unit: Float64
    # Largest absolute value of a predicted logarithm.
    most: Float64
    # Bounds at which the targets of stored rows are clipped.
    fence: Float64
    upper_fence: Float64
    # For each input: its centre and the inverse of its unit; both are 0 if the input has no unit.
    centres: Float64s = sized("room")
    rates: Float64s = sized("room")
    # For each input: `N_BENDS` possible knots of bends, in units of the input from its centre.
    bends: Float64s = sized("room", N_BENDS)
    # For each input: sum of the scores of its columns.
    interest: Float64s = sized("room")
    # For each wave: its number of inputs, the inputs, their factors, and the phase. The last row is
    # for a proposed wave, which is not a column yet.
    arms: Int64s = sized(N_WAVES + 1, bounds=Bounds(0, N_ARMS))
    arm_inputs: Int64s = sized(N_WAVES + 1, N_ARMS, bounds=Bounds(0, below="n_places"))
    arm_factors: Float64s = sized(N_WAVES + 1, N_ARMS)
    phases: Float64s = sized(N_WAVES + 1)
    # For each column except waves: its first input; its second input, `BEND` or `ITSELF`; its knot.
    # For each column: its mean and the inverse of its standard deviation.
    firsts: Int64s = sized("capacity", bounds=Bounds(0, below="n_places"))
    seconds: Int64s = sized("capacity", bounds=Bounds(BEND, below="n_places"))
    knots: Float64s = sized("capacity")
    means: Float64s = sized("capacity")
    factors: Float64s = sized("capacity")
    # Triangles of the sums `ALL`, `LATE` and `LATEST`.
    all_gram: Float64s = sized("n_pairs")
    late_gram: Float64s = sized("n_additive_pairs")
    latest_gram: Float64s = sized("n_linear_pairs")
    # For each regression, the sum over samples of each column times the regression's target.
    moments: Float64s = sized(N_SOLVED, "capacity")
    # Capacity for columns.
    capacity: Int64 = derived()
    # Capacity for inputs.
    room: Int64 = derived()

    def n_pairs(self) -> int:
        """Return the length of the triangle of all columns."""
        return self.capacity * (self.capacity + 1) // 2

    def n_additive_pairs(self) -> int:
        """Return the length of the triangle of all columns except waves."""
        n = self.capacity - N_WAVES
        return n * (n + 1) // 2

    def n_linear_pairs(self) -> int:
        """Return the length of the triangle of the linear columns."""
        n = 1 + min(self.room, MOST_LINEAR)
        return n * (n + 1) // 2

    def n_places(self) -> int:
        """Return a number larger than the index of every input."""
        return max(self.room, 1)

    def gram(self, s: int) -> Float64s:
        """Return the triangle of sums `s` over the first `n_summed(s)` columns."""
        if s == ALL:
            return self.all_gram
        return self.late_gram if s == LATE else self.latest_gram

    def n_summed(self, s: int) -> int:
        """Return the number of columns in sums `s`, and in the regressions on these sums."""
        if s == ALL:
            return self.n_columns
        return self.n_additive if s == LATE else 1 + self.n_linear

    def moments_of(self, k: int) -> Float64s:
        """Return a regression's sums over samples of each column times the target."""
        return self.moments.part(self.capacity * k, self.capacity)

    def width_of(self, k: int) -> int:
        """Return the number of columns of a regression."""
        group = GROUPS[k]
        if group == OF_INPUTS:
            return 1 + self.n_linear
        return self.n_additive if group == OF_BENDS else self.n_columns


class Candidate(Record):
    """A proposed column (see `Design`), with the reduction of squared errors as its score."""

    first: Int64
    second: Int64
    knot: Float64
    mean: Float64
    factor: Float64
    score: Float64


class RidgeExpertsRecord(Record):
    """Ridge regressions of a target, and the stored rows that designs are made from."""

    n_inputs: Int64
    # Number of samples learned.
    n_samples: Int64 = stored(Bounds(0, LARGEST_SIZE))
    # The design in use, and the stage of the other design.
    active: Int64 = stored(Bounds(0, 1))
    stage: Int64 = stored(Bounds(IDLE, REPLAYING))
    # Progress in the current stage: inputs measured, waves drawn, or rows replayed. Number of
    # samples, and of rows of the whole stream, at the start of measuring or replaying. Random
    # state.
    cursor: Int64 = stored(Bounds(0, LARGEST_SIZE))
    n_before: Int64
    kept_before: Int64
    draws: Int64
    # Number of samples at the start of the next design, and number of samples between the next two
    # designs.
    next_design: Int64 = stored(Bounds(0, LARGEST_SIZE))
    gap: Int64 = stored(Bounds(1, LARGEST_SIZE))
    # For each regression: weights (in the design in use) and number of samples at the next
    # solution. Mean size of recent errors, and number of successive clipped errors.
    solutions: Float64s = sized(N_SOLVED, "capacity")
    next_solutions: Int64s = sized(N_SOLVED, bounds=Bounds(0, LARGEST_SIZE))
    scales: Float64s = sized(N_PLAIN)
    n_large: Int64s = sized(N_PLAIN, bounds=Bounds(0, LARGEST_SIZE))
    # Held samples: their number, columns and weights. The sums `ALL` and `LATE` of the design in
    # use do not yet contain the products of held samples.
    n_held: Int64 = stored(Bounds(0, N_HELD - 1))
    held: Float64s = sized(N_HELD, "capacity")
    held_weights: Float64s = sized(N_HELD)
    # Rows of the whole stream, one of every `stride` rows, and their number. A ring of the latest
    # rows.
    n_kept: Int64
    stride: Int64 = stored(Bounds(1, LARGEST_SIZE))
    kept: Float64s = sized("kept_capacity", "row_length")
    latest: Float64s = sized(N_LATEST, "row_length")
    # Errors of a regression on the measured rows.
    errors: Float64s = sized(2 * N_MEASURED)
    # Capacities: inputs, columns, elements of a row, and rows of the whole stream.
    room: Int64 = stored(Bounds(0, LARGEST_ROOM))
    capacity: Int64 = derived()
    row_length: Int64 = derived()
    kept_capacity: Int64 = derived()
    # For each input: 1 if the input is categorical.
    ignored: Int64s = derived()
    designs: Array[Design] = derived()
    # For the last sample: inputs in their units, NaN if missing; the columns of each design; the
    # target and the prediction of each regression.
    units: Float64s = transient("room")
    columns: Float64s = transient(2, "capacity")
    targets: Float64s = transient(N_SOLVED)
    predicted: Float64s = transient(N_RIDGES)
    # Predicted logarithm of the error's size.
    size: Float64 = transient()
    # Buffers for solving: a triangle and a vector. Buffers for choosing columns: values of rows,
    # inputs of examined rows in their units, and candidates.
    triangle: Float64s = transient("n_pairs")
    vector: Float64s = transient("capacity")
    values: Float64s = transient("n_values")
    row_units: Float64s = transient(N_EXAMINED, "room")
    candidates: Array[Candidate] = transient("n_candidates")

    def n_pairs(self) -> int:
        """Return the length of the triangle of all columns."""
        return self.capacity * (self.capacity + 1) // 2

    def n_values(self) -> int:
        """Return the length of `values`: a number per measured row, or per column."""
        return max(2 * N_MEASURED, self.capacity)

    def n_candidates(self) -> int:
        """Return the largest number of candidates."""
        return max(MOST_CANDIDATES, self.room)

    def held_row(self, i: int) -> Float64s:
        """Return the columns of a held sample."""
        return self.held.part(self.capacity * i, self.capacity)

    def kept_row(self, i: int) -> Float64s:
        """Return the i-th kept row of the whole stream."""
        return self.kept.part(self.row_length * i, self.row_length)

    def latest_row(self, i: int) -> Float64s:
        """Return a row of the ring."""
        return self.latest.part(self.row_length * i, self.row_length)

    def solution(self, k: int) -> Float64s:
        """Return the weights of a regression."""
        return self.solutions.part(self.capacity * k, self.capacity)
