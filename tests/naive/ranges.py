"""Robust ranges of columns: fences around quartiles, and the rule for a most common value."""

import math
from collections import Counter


def quantile(values, rate):
    """Return a quantile by linear interpolation between the two nearest values."""
    values = sorted(values)
    place = rate * (len(values) - 1)
    first, second = values[math.floor(place)], values[math.ceil(place)]
    return first + place % 1.0 * (second - first)


def whiskers(values, fence):
    """Return the smallest and the largest value within the fences."""
    lower, upper = quantile(values, 0.25), quantile(values, 0.75)
    reach = fence * (upper - lower)
    within = [value for value in values if lower - reach <= value <= upper + reach]
    return min(within), max(within)


def robust_range(column, fence=3.0):
    """Return both ends of the robust range of a column; NaN is a missing value."""
    values = [float(value) for value in column if not math.isnan(value)]
    if not values:
        return math.nan, math.nan
    commonest, count = Counter(values).most_common(1)[0]
    if 2 * count <= len(values):
        return whiskers(values, fence)
    others = [value for value in values if value != commonest]
    if not others:
        return commonest, commonest
    low, high = whiskers(others, fence)
    return min(low, commonest), max(high, commonest)
