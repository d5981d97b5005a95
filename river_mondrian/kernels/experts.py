"""Mixing several predictions of a class by their progressive log loss.

The experts are mixed in two ways: by fixed share, whose result is sharpened or flattened by a
temperature that is learned online; and by a log-linear pool whose exponents are learned online. A
second fixed share chooses among these two and the first expert as it is.
"""

from __future__ import annotations

import math

import numpy as np

from .memory import kernel

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


def new_state(n: int) -> np.ndarray:
    """Return the state of `n` experts that have predicted nothing."""
    state = np.zeros((ROWS, max(n, N_LAST)))
    state[WEIGHTS, :n] = 1.0 / n
    state[EXPONENTS, :n] = 1.0 / n
    state[LAST, :N_LAST] = 1.0 / N_LAST
    state[INVERSE, 0] = 1.0
    return state


@kernel
def normalize(values: np.ndarray) -> None:
    """Turn log weights into probabilities."""
    top = -math.inf
    for k in range(len(values)):
        top = max(top, values[k])
    total = 0.0
    for k in range(len(values)):
        values[k] = math.exp(values[k] - top)
        total += values[k]
    for k in range(len(values)):
        values[k] /= total


@kernel
def combine(
    experts: np.ndarray, state: np.ndarray, logs: np.ndarray, pools: np.ndarray, out: np.ndarray
) -> None:
    """Mix experts, shape (experts, classes), into `out`, with what is between in `pools`.

    The experts are floored in place. `logs` gets their logarithms, and that of the fixed share.
    `pools` gets the tempered fixed share, the log-linear pool and the first expert.
    """
    n, n_classes = experts.shape
    for e in range(n):
        total = 0.0
        for k in range(n_classes):
            experts[e, k] = max(experts[e, k], FLOOR / n_classes)
            total += experts[e, k]
        for k in range(n_classes):
            experts[e, k] /= total
            logs[e, k] = math.log(experts[e, k])
    for k in range(n_classes):
        mixed, pooled = 0.0, 0.0
        for e in range(n):
            mixed += state[WEIGHTS, e] * experts[e, k]
            pooled += state[EXPONENTS, e] * logs[e, k]
        logs[n, k] = math.log(mixed)
        pools[0, k] = state[INVERSE, 0] * logs[n, k]
        pools[1, k] = pooled
        pools[2, k] = experts[0, k]
    normalize(pools[0])
    normalize(pools[1])
    total = 0.0
    for k in range(n_classes):
        out[k] = 0.0
        for i in range(N_LAST):
            out[k] += state[LAST, i] * pools[i, k]
        total += out[k]
    for k in range(n_classes):
        out[k] /= total


@kernel
def share(weights: np.ndarray, n: int, chances: np.ndarray, label: int) -> None:
    """Let fixed-share weights learn from what was predicted of a class."""
    total = 0.0
    for e in range(n):
        weights[e] *= chances[e, label]
        total += weights[e]
    for e in range(n):
        weights[e] = (1.0 - SHARE_RATE) * weights[e] / total + SHARE_RATE / n


@kernel
def learn(
    experts: np.ndarray, state: np.ndarray, logs: np.ndarray, pools: np.ndarray, label: int
) -> None:
    """Let the mixture learn from a class, after `combine`."""
    n, n_classes = experts.shape
    for e in range(n + 1):
        # The gradient of log loss in an exponent: mean of the logarithm less that of the class.
        pool = pools[0] if e == n else pools[1]
        gradient = -logs[e, label]
        for k in range(n_classes):
            gradient += pool[k] * logs[e, k]
        if e == n:
            state[INVERSE, 1] += gradient * gradient
            moved = state[INVERSE, 0] - STEP * gradient / math.sqrt(1.0 + state[INVERSE, 1])
            state[INVERSE, 0] = min(max(moved, 0.05), LARGEST_EXPONENT)
        else:
            state[SQUARES, e] += gradient * gradient
            moved = state[EXPONENTS, e] - STEP * gradient / math.sqrt(1.0 + state[SQUARES, e])
            state[EXPONENTS, e] = min(max(moved, -1.0), LARGEST_EXPONENT)
    share(state[WEIGHTS], n, experts, label)
    share(state[LAST], N_LAST, pools, label)
