"""Mixing several predictions of a class by their progressive log loss.

The experts are mixed in two ways: by fixed share, whose result is sharpened or flattened by a
temperature that is learned online; and by a log-linear pool whose exponents are learned online. A
second fixed share chooses among these two and the first expert as it is.
"""

from __future__ import annotations

import math

import numpy as np

from .elementary import logarithms
from .memory import f64, inlined, kernel, put_f64

# Rows of a state, shape (ROWS, experts): weights of the fixed share, the pool's exponents and the
# sums of squares of their gradients; then of the last fixed share its three weights, and the
# temperature's exponent and sum.
WEIGHTS = 0
EXPONENTS = 1
SQUARES = 2
LAST = 3
INVERSE = 4
ROWS = 5
N_LAST = 3

# Smallest probability that an expert may give, times the number of classes.
FLOOR = 1e-4
SHARE_RATE = 0.01
STEP = 0.05
LARGEST_EXPONENT = 4.0
LEAST_EXPONENT = -1.0
LEAST_INVERSE = 0.05


def new_state(n: int) -> np.ndarray:
    """Return the state of `n` experts that have predicted nothing."""
    state = np.zeros((ROWS, max(n, N_LAST)))
    state[WEIGHTS, :n] = 1.0 / n
    state[EXPONENTS, :n] = 1.0 / n
    state[LAST, :N_LAST] = 1.0 / N_LAST
    state[INVERSE, 0] = 1.0
    return state


@inlined
def place(base: int, width: int, i: int) -> int:
    """Return the address of the i-th row of so many float64."""
    return base + 8 * width * i


@inlined
def normalize(values: int, n: int) -> None:
    """Turn log weights into probabilities."""
    top = -math.inf
    for k in range(n):
        top = max(top, f64(values, k))
    total = 0.0
    for k in range(n):
        put_f64(values, k, math.exp(f64(values, k) - top))
        total += f64(values, k)
    for k in range(n):
        put_f64(values, k, f64(values, k) / total)


@kernel
def combine(
    n: int, n_classes: int, width: int, said: int, state: int, logs: int, pools: int, out: int
) -> None:
    """Mix `n` experts into `out`, with what is between in `pools`.

    All are addresses of float64, of rows of `width` but for the state, of which the first
    `n_classes` are used. The experts, in `said`, are floored in place. `logs` gets their
    logarithms, and that of the fixed share. `pools` gets the tempered fixed share, the log-linear
    pool and the first expert.
    """
    columns = max(n, N_LAST)
    weights, exponents = place(state, columns, WEIGHTS), place(state, columns, EXPONENTS)
    last = place(state, columns, LAST)
    inverse = f64(place(state, columns, INVERSE), 0)
    tempered, pooled, first = pools, place(pools, width, 1), place(pools, width, 2)
    for k in range(n_classes):
        put_f64(tempered, k, 0.0)
        put_f64(pooled, k, 0.0)
    for e in range(n):
        expert = place(said, width, e)
        total = 0.0
        for k in range(n_classes):
            put_f64(expert, k, max(f64(expert, k), FLOOR / n_classes))
            total += f64(expert, k)
        for k in range(n_classes):
            put_f64(expert, k, f64(expert, k) / total)
    # All at once, with what is behind the classes.
    logarithms(said, n * width, logs)
    for e in range(n):
        expert, own_logs = place(said, width, e), place(logs, width, e)
        weight, exponent = f64(weights, e), f64(exponents, e)
        for k in range(n_classes):
            put_f64(tempered, k, f64(tempered, k) + weight * f64(expert, k))
            put_f64(pooled, k, f64(pooled, k) + exponent * f64(own_logs, k))
    mixed = place(logs, width, n)
    logarithms(tempered, n_classes, mixed)
    for k in range(n_classes):
        put_f64(tempered, k, inverse * f64(mixed, k))
        put_f64(first, k, f64(said, k))
    normalize(tempered, n_classes)
    normalize(pooled, n_classes)
    total = 0.0
    for k in range(n_classes):
        chance = 0.0
        for i in range(N_LAST):
            chance += f64(last, i) * f64(place(pools, width, i), k)
        put_f64(out, k, chance)
        total += chance
    for k in range(n_classes):
        put_f64(out, k, f64(out, k) / total)


@inlined
def share(weights: int, n: int, width: int, chances: int, label: int) -> None:
    """Let fixed-share weights learn from what was predicted of a class."""
    total = 0.0
    for e in range(n):
        put_f64(weights, e, f64(weights, e) * f64(place(chances, width, e), label))
        total += f64(weights, e)
    for e in range(n):
        put_f64(weights, e, (1.0 - SHARE_RATE) * f64(weights, e) / total + SHARE_RATE / n)


@inlined
def descend(
    exponent: int, squares: int, pool: int, logs: int, n_classes: int, label: int, least: float
) -> None:
    """Move an exponent against the gradient of log loss, by the sum of the gradients' squares."""
    gradient = -f64(logs, label)
    for k in range(n_classes):
        gradient += f64(pool, k) * f64(logs, k)
    put_f64(squares, 0, f64(squares, 0) + gradient * gradient)
    moved = f64(exponent, 0) - STEP * gradient / math.sqrt(1.0 + f64(squares, 0))
    put_f64(exponent, 0, min(max(moved, least), LARGEST_EXPONENT))


@kernel
def learn(
    n: int, n_classes: int, width: int, said: int, state: int, logs: int, pools: int, label: int
) -> None:
    """Let the mixture learn from a class, after `combine`."""
    columns = max(n, N_LAST)
    exponents, squares = place(state, columns, EXPONENTS), place(state, columns, SQUARES)
    pooled = place(pools, width, 1)
    for e in range(n):
        own = place(logs, width, e)
        descend(exponents + 8 * e, squares + 8 * e, pooled, own, n_classes, label, LEAST_EXPONENT)
    inverse, mixed = place(state, columns, INVERSE), place(logs, width, n)
    descend(inverse, inverse + 8, pools, mixed, n_classes, label, LEAST_INVERSE)
    share(place(state, columns, WEIGHTS), n, width, said, label)
    share(place(state, columns, LAST), np.int64(N_LAST), width, pools, label)
