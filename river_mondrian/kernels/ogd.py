"""Online gradient descent on the outputs of a feature map, one call per event.

A learner has one score, or one per class. A column's weights for all classes are neighbours,
followed by their sums of squared gradients where steps adapt to them (AdaGrad), in a slot. Columns
that no sample has moved yet have slot 0, which is zero. Those that one sample moves first have the
same weights from then on until another sample moves them: they share a slot, and a column gets one
of its own when it is moved again. So cells with one sample take next to no memory.

On a map whose outputs are those of several lifetimes, one after the other, each lifetime has a
learner of its own. They are mixed by exponential weights: a lifetime's share of the prediction is
multiplied by exp(-loss) with each sample, the loss in units of its mean, and a fixed part of all
shares is spread evenly, so that another lifetime can take over when the stream changes (Herbster
and Warmuth's fixed share). Over classes mistakes are counted: by their log loss the confident
learners at long lifetimes would lose although they make fewer of them.
"""

from __future__ import annotations

import math

from . import maps
from .memory import (
    exact_inlined,
    exact_kernel,
    f64,
    i32,
    i64,
    prefetch,
    put_f64,
    put_i32,
    put_i64,
    row_address,
)

# Words of a learner's record; the weights are a table of chunks, a row for each slot.
WEIGHTS = 0
N_SCORES = 1
# Numbers per weight: 2 with AdaGrad, else 1.
STRIDE = 2
LOSS = 3
FIRST = 4
SECOND = 5
RATE = 6
EPS = 7
SCORES = 8
GRADIENTS = 9
STEPS = 10
N_LIFETIMES = 11
# Addresses: each lifetime's share, after them the mean loss and the samples it is over; room for
# a number per lifetime and per score.
SHARES = 12
ROOM = 13
# The address of the columns' slots (int32), ~slot where it is shared, and how many slots are used
# and there.
SLOTS = 14
N_SLOTS = 15
CAPACITY = 16
N_WORDS = 17

# Losses; the record's FIRST and SECOND are their parameters.
HINGE = 0
LOG = 1
SQUARED = 2
EPSILON_INSENSITIVE = 3
HUBER = 4
SOFTMAX = 5

# Where gradients by score end, so that a diverging regression stays finite for long.
LARGEST_GRADIENT = 1e12

# Part of the shares of lifetimes that each sample spreads evenly, and samples over which the mean
# loss is taken.
SPREAD = 1e-3
MEMORY = 1000.0

# Mean losses that divide a share by e: errors have heavier tails than a likelihood would allow for.
RATE_OF_SHARES = 0.125

# Largest exponent, so that no share vanishes.
LARGEST_LOSS = 50.0

# Cells whose weights are brought close ahead of their use, and scores from which on that pays.
AHEAD = 4
MANY_SCORES = 4


@exact_inlined
def outputs_of_one(record: int, map_record: int) -> int:
    """Return how many of the outputs belong to one lifetime."""
    return i64(map_record, maps.N_OUT) // i64(record, N_LIFETIMES)


@exact_inlined
def weights_of(record: int, column: int, width: int) -> int:
    """Return the address of a column's weights, in a row of so many words."""
    slot = i32(i64(record, SLOTS), column)
    return row_address(i64(record, WEIGHTS), slot if slot >= 0 else ~slot, width)


@exact_inlined
def add_up(record: int, map_record: int, out: int) -> None:
    """Write the scores of a mapped sample at one lifetime."""
    scores, slots = i64(record, SCORES), i64(record, SLOTS)
    n_scores, n_out = i64(record, N_SCORES), outputs_of_one(record, map_record)
    width = 2 * n_scores * i64(record, STRIDE)
    for k in range(n_scores):
        put_f64(scores, k, 0.0)
    if i64(map_record, maps.DENSE) != 0:
        for i in range(n_out):
            value, column = f64(out, i), weights_of(record, i, width)
            for k in range(n_scores):
                put_f64(scores, k, f64(scores, k) + value * f64(column, k))
        return
    for i in range(n_out):
        if n_scores >= MANY_SCORES and i + AHEAD < n_out:
            prefetch(weights_of(record, i32(out, i + AHEAD), width), 8 * n_scores)
        column = i32(out, i)
        if i32(slots, column) == 0:
            continue
        cell = weights_of(record, column, width)
        for k in range(n_scores):
            put_f64(scores, k, f64(scores, k) + f64(cell, k))
    value = f64(map_record, maps.VALUE)
    for k in range(n_scores):
        put_f64(scores, k, value * f64(scores, k))


@exact_inlined
def mix(record: int, map_record: int, out: int) -> None:
    """Write the scores of the mixture of lifetimes: of its probabilities where there are any.

    Lifetimes whose share is less than what is spread evenly have no say.
    """
    scores, shares = i64(record, SCORES), i64(record, SHARES)
    n_scores, n_lifetimes = i64(record, N_SCORES), i64(record, N_LIFETIMES)
    loss, step = i64(record, LOSS), 4 * outputs_of_one(record, map_record)
    mixed = i64(record, ROOM) + 8 * n_lifetimes
    for c in range(n_scores):
        put_f64(mixed, c, 0.0)
    kept = 0.0
    for k in range(n_lifetimes):
        share = f64(shares, k)
        if share < SPREAD:
            continue
        kept += share
        add_up(record, map_record, out + step * k)
        largest, total = f64(scores, 0), 0.0
        if loss == SOFTMAX:
            for c in range(1, n_scores):
                largest = max(largest, f64(scores, c))
            for c in range(n_scores):
                power = math.exp(f64(scores, c) - largest)
                put_f64(scores, c, power)
                total += power
            share /= total
        for c in range(n_scores):
            value = f64(scores, c)
            if loss == LOG:
                value = 1.0 / (1.0 + math.exp(-value))
            put_f64(mixed, c, f64(mixed, c) + share * value)
    for c in range(n_scores):
        value = f64(mixed, c) / kept
        if loss == SOFTMAX:
            value = math.log(max(value, 1e-300))
        elif loss == LOG:
            value = math.log(max(value, 1e-300) / max(1.0 - value, 1e-16))
        put_f64(scores, c, value)


@exact_inlined
def score(record: int, map_record: int, out: int) -> None:
    """Write the scores of a mapped sample."""
    if i64(record, N_LIFETIMES) > 1:
        mix(record, map_record, out)
    else:
        add_up(record, map_record, out)


@exact_inlined
def loss_of(record: int, target: float) -> float:
    """Return the loss of the scores by which lifetimes are compared; mistakes are 1 over classes.

    With several scores the target is the class's number.
    """
    scores, n_scores = i64(record, SCORES), i64(record, N_SCORES)
    loss, first, own = i64(record, LOSS), f64(record, FIRST), f64(scores, 0)
    if n_scores > 1:
        for c in range(n_scores):
            if c == target:
                own = f64(scores, c)
        for c in range(n_scores):
            if c != target and f64(scores, c) >= own:
                return 1.0
        return 0.0
    if loss in (HINGE, LOG):
        return 1.0 if (2.0 * target - 1.0) * own <= 0.0 else 0.0
    gap = math.fabs(own - target)
    if loss == SQUARED:
        return gap * gap
    if loss == EPSILON_INSENSITIVE:
        return max(0.0, gap - first)
    return 0.5 * gap * gap if gap <= first else first * (gap - 0.5 * first)


@exact_inlined
def share_out(record: int, weight: float) -> None:
    """Move the shares of lifetimes by their losses, which are in `ROOM`."""
    shares, losses = i64(record, SHARES), i64(record, ROOM)
    n_lifetimes = i64(record, N_LIFETIMES)
    least, expected = f64(losses, 0), 0.0
    for k in range(n_lifetimes):
        least = min(least, f64(losses, k))
        expected += f64(shares, k) * f64(losses, k)
    count = min(f64(shares, n_lifetimes + 1) + 1.0, MEMORY)
    mean = f64(shares, n_lifetimes)
    mean += (expected - mean) / count
    put_f64(shares, n_lifetimes, mean)
    put_f64(shares, n_lifetimes + 1, count)
    rate = weight * RATE_OF_SHARES / mean if mean > 0.0 else 0.0
    total = 0.0
    for k in range(n_lifetimes):
        beyond = min(rate * (f64(losses, k) - least), LARGEST_LOSS)
        put_f64(shares, k, f64(shares, k) * math.exp(-beyond))
        total += f64(shares, k)
    for k in range(n_lifetimes):
        put_f64(shares, k, (1.0 - SPREAD) * f64(shares, k) / total + SPREAD / n_lifetimes)


@exact_inlined
def gradient(record: int, score: float, target: float) -> float:
    """Return the derivative of the loss by the score."""
    loss, first = i64(record, LOSS), f64(record, FIRST)
    if loss == HINGE:
        sign = 2.0 * target - 1.0
        return -sign if sign * score <= first else 0.0
    if loss == LOG:
        sign = 2.0 * target - 1.0
        weight = first if target > 0.5 else f64(record, SECOND)
        margin = sign * score
        if margin > 0.0:
            small = math.exp(-margin)
            return -sign * weight * small / (1.0 + small)
        return -sign * weight / (1.0 + math.exp(margin))
    gap = score - target
    if loss == SQUARED:
        return 2.0 * gap
    if loss == EPSILON_INSENSITIVE:
        if math.fabs(gap) <= first:
            return 0.0
        return 1.0 if gap > 0.0 else -1.0
    return min(max(gap, -first), first)


@exact_inlined
def differentiate(record: int, target: float, weight: float) -> None:
    """Write the gradients by the scores; with several scores the target is the class's number."""
    scores, gradients = i64(record, SCORES), i64(record, GRADIENTS)
    n_scores = i64(record, N_SCORES)
    if n_scores == 1:
        put_f64(gradients, 0, weight * gradient(record, f64(scores, 0), target))
    elif i64(record, LOSS) == SOFTMAX:
        largest, total = f64(scores, 0), 0.0
        for k in range(1, n_scores):
            largest = max(largest, f64(scores, k))
        for k in range(n_scores):
            power = math.exp(f64(scores, k) - largest)
            put_f64(gradients, k, power)
            total += power
        for k in range(n_scores):
            own = 1.0 if k == target else 0.0
            put_f64(gradients, k, weight * (f64(gradients, k) / total - own))
    else:
        for k in range(n_scores):
            own = 1.0 if k == target else 0.0
            put_f64(gradients, k, weight * gradient(record, f64(scores, k), own))


@exact_inlined
def step(record: int, weights: int, value: float, rate: float) -> None:
    """Move a column's weights against their derivatives, `value` times the gradients."""
    gradients, n_scores, eps = i64(record, GRADIENTS), i64(record, N_SCORES), f64(record, EPS)
    if i64(record, STRIDE) == 1:
        for k in range(n_scores):
            put_f64(weights, k, f64(weights, k) - rate * (value * f64(gradients, k)))
        return
    squares = weights + 8 * n_scores
    for k in range(n_scores):
        derivative = value * f64(gradients, k)
        total = f64(squares, k) + derivative * derivative
        put_f64(squares, k, total)
        # Without an eps the first derivative may be 0 over 0.
        move = rate / math.sqrt(total + eps) * derivative if derivative != 0.0 else 0.0
        put_f64(weights, k, f64(weights, k) - move)


@exact_inlined
def descend(record: int, map_record: int, out: int, rate: float) -> None:
    """Move the weights of a mapped sample's columns by the gradients."""
    gradients, n_scores = i64(record, GRADIENTS), i64(record, N_SCORES)
    slots, weights = i64(record, SLOTS), i64(record, WEIGHTS)
    width = 2 * n_scores * i64(record, STRIDE)
    dense, value = i64(map_record, maps.DENSE) != 0, f64(map_record, maps.VALUE)
    moved = False
    for k in range(n_scores):
        slope = min(max(f64(gradients, k), -LARGEST_GRADIENT), LARGEST_GRADIENT)
        put_f64(gradients, k, slope)
        moved = moved or slope != 0.0
    if not moved:
        return
    # The slot of the columns that this sample is the first to move, the last of them, their number.
    shared, last, n_shared = 0, 0, 0
    for i in range(outputs_of_one(record, map_record)):
        column = i if dense else i32(out, i)
        if dense:
            value = f64(out, i)
        slot = i32(slots, column)
        if slot == 0 and shared != 0 and not dense:
            put_i32(slots, column, ~shared)
            n_shared += 1
            continue
        target = row_address(weights, slot if slot > 0 else i64(record, N_SLOTS), width)
        if slot <= 0:
            new = i64(record, N_SLOTS)
            put_i64(record, N_SLOTS, new + 1)
            put_i32(slots, column, new)
            if slot < 0:
                old = row_address(weights, ~slot, width)
                for k in range(width):
                    put_i32(target, k, i32(old, k))
            elif not dense:
                shared, last, n_shared = new, column, 1
                put_i32(slots, column, ~new)
        step(record, target, value, rate)
    if n_shared == 1:
        put_i32(slots, last, shared)


@exact_inlined
def are_equal(first: int, second: int, n: int) -> bool:
    """Tell whether two rows of cells are equal."""
    for i in range(n):
        if i32(first, i) != i32(second, i):
            return False
    return True


@exact_inlined
def learn_mapped(
    record: int, map_record: int, out: int, target: float, weight: float, rate: float
) -> None:
    """Learn a mapped sample."""
    n = outputs_of_one(record, map_record)
    for _ in range(i64(record, N_LIFETIMES)):
        add_up(record, map_record, out)
        differentiate(record, target, weight)
        descend(record, map_record, out, rate)
        out += 4 * n
    put_i64(record, STEPS, i64(record, STEPS) + 1)


@exact_inlined
def learn_compared(
    record: int, map_record: int, out: int, target: float, weight: float, rate: float
) -> None:
    """Learn a mapped sample, and move the shares of lifetimes by how they predicted it.

    They did so by the cells that it had before its map learned it.
    """
    n, n_lifetimes = outputs_of_one(record, map_record), i64(record, N_LIFETIMES)
    before = i64(map_record, maps.BEFORE)
    if before == 0:
        before = out
    put_i64(map_record, maps.BEFORE, 0)
    for k in range(n_lifetimes):
        add_up(record, map_record, before)
        put_f64(i64(record, ROOM), k, loss_of(record, target))
        if not are_equal(before, out, n):
            add_up(record, map_record, out)
        differentiate(record, target, weight)
        descend(record, map_record, out, rate)
        before += 4 * n
        out += 4 * n
    share_out(record, weight)
    put_i64(record, STEPS, i64(record, STEPS) + 1)


@exact_inlined
def learn(
    record: int, map_record: int, out: int, target: float, weight: float, rate: float
) -> None:
    """Predict a mapped sample and learn it."""
    if i64(record, N_LIFETIMES) > 1:
        learn_compared(record, map_record, out, target, weight, rate)
    else:
        learn_mapped(record, map_record, out, target, weight, rate)


@exact_inlined
def best_score(record: int) -> int:
    """Return the class with the largest score, the first of several."""
    scores = i64(record, SCORES)
    if i64(record, N_SCORES) == 1:
        return 1 if f64(scores, 0) > 0.0 else 0
    best = 0
    for k in range(1, i64(record, N_SCORES)):
        if f64(scores, k) > f64(scores, best):
            best = k
    return best


@exact_kernel
def score_one(record: int, map_record: int, x: int, out: int) -> int:
    """Map a sample and write its scores; returns the best class, or ~place of a bad input."""
    bad = maps.map_one(map_record, x, out)
    if bad >= 0:
        return ~bad
    score(record, map_record, out)
    return best_score(record)


@exact_kernel
def learn_one(record: int, map_record: int, x: int, out: int, target: float, weight: float) -> int:
    """Map a sample, predict it, and learn it; returns -1, or the place of a bad input."""
    bad = maps.map_one(map_record, x, out)
    if bad < 0:
        learn(record, map_record, out, target, weight, f64(record, RATE))
    return bad


@exact_kernel
def learn_out(record: int, map_record: int, out: int, target: float, weight: float) -> None:
    """Predict a mapped sample and learn it."""
    learn(record, map_record, out, target, weight, f64(record, RATE))


@exact_kernel
def score_out(record: int, map_record: int, out: int) -> None:
    """Write the scores of a mapped sample."""
    score(record, map_record, out)


@exact_kernel
def update(record: int, map_record: int, out: int) -> None:
    """Learn a mapped sample by the gradients that the record points to."""
    descend(record, map_record, out, f64(record, RATE))
    put_i64(record, STEPS, i64(record, STEPS) + 1)


@exact_kernel
def learn_rows(
    record: int,
    map_record: int,
    out: int,
    n: int,
    targets: int,
    weights: int,
    rates: int,
    before: int,
    start: int,
) -> int:
    """Learn mapped rows from `start` on, with float64 targets, weights and learning rates.

    `before` has the outputs by which they compare lifetimes, or is 0. Returns the first row that
    there were too few slots for, or `n`.
    """
    step = i64(map_record, maps.N_OUT) * (8 if i64(map_record, maps.DENSE) else 4)
    out += step * start
    for row in range(start, n):
        if i64(record, N_SLOTS) + i64(map_record, maps.N_OUT) > i64(record, CAPACITY):
            return row
        target, weight, rate = f64(targets, row), f64(weights, row), f64(rates, row)
        if before != 0:
            put_i64(map_record, maps.BEFORE, before + step * row)
            learn_compared(record, map_record, out, target, weight, rate)
        else:
            learn_mapped(record, map_record, out, target, weight, rate)
        out += step
    return n


@exact_kernel
def score_rows(record: int, map_record: int, out: int, n: int, scores: int) -> None:
    """Write the scores of mapped rows."""
    word = 8 if i64(map_record, maps.DENSE) else 4
    for _ in range(n):
        score(record, map_record, out)
        for k in range(i64(record, N_SCORES)):
            put_f64(scores, k, f64(i64(record, SCORES), k))
        scores += 8 * i64(record, N_SCORES)
        out += word * i64(map_record, maps.N_OUT)
