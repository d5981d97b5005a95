"""Predictions that wait for their labels, found by an id or by an equal sample.

Equal samples may wait at the same time, and some labels may never come. Then several predictions
may belong to a label. The module assumes that no delay is shorter than the shortest earlier delay,
counted in predictions. The label belongs to the latest prediction that is old enough, or to the
oldest prediction if none is old enough. Older predictions of the sample are dropped, because their
labels never came. The choice is correct if all labels have the same delay, even if labels are
missing. Without equal samples that wait at the same time, the choice is always correct.

The first label belongs to the first prediction if they have equal samples. Otherwise earlier labels
are missing, and the first label belongs to the latest prediction of its sample.
"""

from __future__ import annotations

import functools
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Mapping
from itertools import islice
from typing import Any

from ..arguments import told
from ..inputs import as_dict, ordered
from ..values import level_of, number_of

# A prediction without an id expires after this number of labels, or after twice the longest
# observed delay if this is more.
LEAST_EXPIRY = 1000
# Labels count as unmatched if this number of successive labels had no prediction, while at least as
# many ids and samples wait.
MANY_UNCLAIMED = 100

# Types of numbers that are compared without conversion.
NUMBERS = frozenset({float, int, bool})

# Pairs of a prediction's number and the prediction.
Entries = tuple[tuple[int, Any], ...]
_NUMBER = operator.itemgetter(0)
Change = Callable[[], None]


def key_of(x: Mapping[Any, Any] | str) -> Hashable:
    """Return a key of a sample, which samples with equal values of the same features share.

    Numbers of all types, truth values and 0-dimensional arrays are compared as numbers, and other
    values as levels. Missing values and the order of features do not matter. A sample may be a
    text.

    Raises
    ------
    TypeError
        If the sample or a value cannot be compared.

    """
    if isinstance(x, str):
        return float(level_of(x))
    x = as_dict(x)
    names = _order(tuple(x))
    values = [x[name] for name in names]
    # Values are converted only if necessary, because usually all are numbers, and conversion is
    # slow.
    if not NUMBERS.issuperset(map(type, values)) or any(map(operator.ne, values, values)):
        x = {name: _comparable(name, x[name]) for name in names}
        names = _order(tuple([name for name, value in x.items() if value == value]))
        values = [x[name] for name in names]
    return (names, *values)


@functools.lru_cache(16)
def _order(names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """Return sorted names. The cache lets samples with equal names share one tuple."""
    return tuple(ordered(names))


def _comparable(name: Hashable, value: Any) -> float:
    """Return a number that equal values share; NaN if the value is missing."""
    if type(value) in NUMBERS:
        return value
    try:
        # An integer stays an integer, because a float would round large integers.
        return operator.index(value)
    except TypeError:
        pass
    number = None if isinstance(value, str) else number_of(value)
    try:
        return float(level_of(value)) if number is None else number
    except TypeError:
        raise TypeError(f"feature {name!r} is {told(value)}") from None


def _put(stored: dict[Hashable, Any], key: Hashable, value: Any) -> None:
    """Set the value of a key, and move the key to the end."""
    stored.pop(key, None)
    stored[key] = value


class WaitingPredictions:
    """Predictions that wait for their labels.

    Methods that begin with `to_` return a function that makes a change. A second call of this
    function has no effect, so an interrupted change can be completed.

    Attributes
    ----------
    by_id
        Predictions by id, the oldest first.
    by_sample
        Numbered predictions by sample, the oldest first. Samples are ordered by their latest
        predictions.
    n
        Number of predictions without an id.
    calls
        Names of the calls that have returned the latest prediction.
    least
        Smallest number of predictions between a prediction without an id and its label; None before
        any such label.
    longest
        Largest number of labels between a prediction without an id and its label.
    n_at_claim
        Number of labels up to the last label that had a stored prediction.

    """

    def __init__(self) -> None:
        self.by_id: dict[Hashable, Any] = {}
        self.by_sample: dict[Hashable, Entries] = {}
        self.n = 0
        self.calls: frozenset[str] = frozenset()
        self.least: int | None = None
        self.longest = 0
        self.n_at_claim = 0

    def __len__(self) -> int:
        return len(self.by_id) + len(self.by_sample)

    def _choose(self, entries: Entries, least: int) -> tuple[tuple[int, Any], Entries]:
        """Return the entry that a label belongs to, and all entries that are not older.

        The label belongs to the latest entry that at least `least` predictions followed. Without
        such an entry, the label belongs to the oldest entry. Predictions between the same two
        labels have the same age.
        """
        if len(entries) == 1:
            return entries[0], entries
        n_old = bisect_right(entries, self.n - 1 - least, key=_NUMBER)
        chosen = entries[max(n_old - 1, 0)]
        return chosen, tuple([pair for pair in entries if pair[1].n_learned >= chosen[1].n_learned])

    def latest(self, key: Hashable, n_learned: int) -> Any:
        """Return a sample's latest prediction, or None.

        The result is None without a prediction, or if a label came after the prediction.
        """
        entries = self.by_sample.get(key)
        return entries[-1][1] if entries and entries[-1][1].n_learned == n_learned else None

    def to_add(self, key: Hashable, predicted: Any, call: str | None, limit: int) -> Change:
        """Return a change that adds a prediction.

        The change drops the sample's predictions before the last `limit` predictions, and samples
        without a prediction among the last `limit`. Successive calls for one sample count as one
        prediction, unless the same `call` is repeated. A `call` of None may be repeated.
        """
        number, entries = self.n, self.by_sample.get(key, ())
        calls = frozenset(() if call is None else (call,))
        is_latest = entries and entries[-1][0] == number - 1 and entries[-1][1] is predicted
        if is_latest and call not in self.calls:
            number, calls, entries = number - 1, calls | self.calls, entries[:-1]
        if entries and self.least is not None:
            entries = self._choose(entries, self.least)[1]
        first = number - limit + 1
        latest = (*entries[bisect_left(entries, first, key=_NUMBER) :], (number, predicted))

        def add() -> None:
            _put(self.by_sample, key, latest)
            while next(iter(self.by_sample.values()))[-1][0] < first:
                del self.by_sample[next(iter(self.by_sample))]
            self.n, self.calls = number + 1, calls

        return add

    def to_add_id(self, key: Hashable, predicted: Any, limit: int) -> Change:
        """Return a change that sets an id's prediction, and drops the oldest beyond `limit` ids."""

        def add() -> None:
            _put(self.by_id, key, predicted)
            while len(self.by_id) > limit:
                del self.by_id[next(iter(self.by_id))]

        return add

    def to_claim(self, key: Hashable, n_learned: int) -> tuple[Any, Change]:
        """Return a sample's prediction for a label, or None, and a change that removes it.

        The change also drops samples that have expired.
        """
        entries = self.by_sample.get(key)
        if not entries:
            return None, lambda: self._expire(n_learned + 1)
        least = self.least
        if least is None:
            is_first = entries[0][0] == 0 and entries[0][1].n_learned == n_learned
            least = self.n if is_first else 0
        (number, predicted), entries = self._choose(entries, least)
        rest = tuple([entry for entry in entries if entry[0] != number])
        gap = self.n - 1 - number
        least = gap if self.least is None else min(gap, self.least)
        longest = max(self.longest, n_learned - predicted.n_learned)

        def claim() -> None:
            self.by_sample[key] = rest
            if not rest:
                del self.by_sample[key]
            self.least, self.longest, self.n_at_claim = least, longest, n_learned + 1
            self._expire(n_learned + 1)

        return predicted, claim

    def to_claim_id(self, key: Hashable, n_learned: int) -> tuple[Any, Change]:
        """Return the prediction for an id's label, or None, and a change that removes it."""
        if key not in self.by_id:
            return None, lambda: None

        def claim() -> None:
            self.by_id.pop(key, None)
            self.n_at_claim = n_learned + 1

        return self.by_id[key], claim

    def _expire(self, n_learned: int) -> None:
        """Drop samples whose latest predictions have expired (`LEAST_EXPIRY`)."""
        least = n_learned - max(LEAST_EXPIRY, 2 * self.longest)
        while self.by_sample and next(iter(self.by_sample.values()))[-1][1].n_learned < least:
            del self.by_sample[next(iter(self.by_sample))]

    def are_unclaimed(self, n_learned: int) -> bool:
        """Return whether many predictions wait and many labels have not found a prediction."""
        if len(self) < MANY_UNCLAIMED:
            return False
        oldest = [entries[0][1] for entries in islice(self.by_sample.values(), 1)]
        oldest += islice(self.by_id.values(), 1)
        first = min(predicted.n_learned for predicted in oldest)
        return n_learned - max(self.n_at_claim, first) >= MANY_UNCLAIMED
