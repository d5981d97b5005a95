"""Fences of targets, the targets that count, and the extent of the data."""

import math

from naive.ranges import robust_range


def fences(targets, weights):
    """Return the fences of targets with weights."""
    step = math.ceil(len(targets) / 1024)
    read = list(zip(targets, weights, strict=True))[::step]
    low, high = robust_range([y for y, weight in read if weight > 0.0])
    if not low < high:
        return -math.inf, math.inf
    return low - 10.0 * (high - low), high + 10.0 * (high - low)


def counted(targets, weights):
    """Return whether each target counts, once all targets have been seen."""
    low, high = -math.inf, math.inf
    found = []
    for n, y in enumerate(targets, 1):
        found.append(low <= y <= high)
        if n >= 16 and n % 2 ** (math.floor(math.log2(n)) - 2) == 0:
            low, high = fences(targets[:n], weights[:n])
            if n <= 4096:
                found = [low <= y <= high for y in targets[:n]]
    return found


def moments(targets, weights):
    """Return the weight, mean and sum of squared deviations of the targets that count."""
    counts = counted(targets, weights)
    pairs = [(y, w) for y, w, is_in in zip(targets, weights, counts, strict=True) if is_in]
    total = math.fsum(w for _, w in pairs)
    if total == 0.0:
        return 0.0, 0.0, 0.0
    mean = math.fsum(y * w for y, w in pairs) / total
    return total, mean, math.fsum(w * (y - mean) ** 2 for y, w in pairs)


def extent(rows):
    """Return the sum of the ranges of columns; each is at most 1.5 times its robust range."""
    total = 0.0
    for column in zip(*rows, strict=True):
        low, high = robust_range(column)
        if known := [v for v in column if not math.isnan(v)]:
            total += min(max(known) - min(known), 1.5 * (high - low))
    return total
