"""Check that a call that fails leaves a model in its state before the call or after it."""

import os
import pickle
from functools import partial

from .allocations import count_allocations, fail_allocation
from .interrupts import count_lines, interrupt
from .tally import note

LINES = "exceptions at lines of Python"
ALLOCATIONS = "allocations that fail"
WAYS = {LINES: (count_lines, interrupt), ALLOCATIONS: (count_allocations, fail_allocation)}

# The largest number of lines of a call that are attacked.
MOST = 5000


# Whether all cases are attacked; the test suite attacks some of them.
IS_FULL = "ATTACK_EVERY" in os.environ


def some(cases, every=3):
    """Return every third case, or all cases if `ATTACK_EVERY` is set."""
    return list(cases)[:: 1 if IS_FULL else every]


class Judge:
    """Lets calls fail, and checks the models that they leave.

    Parameters
    ----------
    looks
        A function that returns all visible state of a model, for comparison.
    go_on
        A function that lets a model learn some more samples.
    every
        The step between attacked lines; the step between attacked allocations is an eighth of it.
        The environment variable `ATTACK_EVERY` overrides it; 1 attacks all lines and allocations.

    """

    def __init__(self, looks, go_on, every):
        self.looks = looks
        self.go_on = go_on
        self.every = int(os.environ.get("ATTACK_EVERY", every))

    def _future(self, model):
        """Return the visible state of a model after some more samples."""
        self.go_on(model)
        return self.looks(model)

    def lines(self, state, call):
        """Raise an exception at the lines of a call; return which of the two states the models had.

        The set holds 0 for the state before the call, and 1 for the state after it.
        """
        return self._attack(state, call, LINES, self.every)

    def allocations(self, state, call):
        """Raise errors at allocations of a call; return like `lines`."""
        return self._attack(state, call, ALLOCATIONS, 1 + self.every // 8)

    def _attack(self, state, call, what, every, between=()):
        """Let a call fail at every `every`-th place; each call of `between` does a part of it."""
        count, strike = WAYS[what]
        # Kernels are compiled or loaded at their first call, which is not attacked.
        call(pickle.loads(state))
        models = [pickle.loads(state) for _ in range(len(between) + 2)]
        for part, model in zip(between, models[1:], strict=False):
            part(model)
        n = count(lambda: call(models[-1]))
        expected = [self.looks(model) for model in models]
        futures = [self._future(model) for model in models]
        # At least 8 places are attacked, and about `MOST` at most, evenly spread.
        every = max(1, min(every, n // 8), n // MOST)
        found, n_struck = set(), 0
        for k in range(1 + n % every, n + 1, every):
            model = pickle.loads(state)
            if not strike(lambda model=model: call(model), k):
                # An allocation may be missing: memory that an earlier call allocated is used again.
                assert what == ALLOCATIONS, f"{k} of {n}"
                continue
            n_struck += 1
            # The tracer may raise where a `with` block has ended but still holds the lock. Signals
            # are not handled there.
            while model._lock._is_owned():
                model._lock.release()
            seen = self.looks(model)
            assert seen in expected, f"{k} of {n}"
            # A call that only reads leaves the state as before.
            which = expected.index(seen)
            is_new = which not in found
            found.add(which)
            if is_new or k % 10 == 0:
                assert self._future(model) == futures[which], f"{k} of {n}"
        assert n_struck or what == ALLOCATIONS
        note(what, n_struck)
        return found

    def lines_of_many(self, state, learn_many, n_rows):
        """Raise an exception at lines of a call that learns many rows; return the numbers learned.

        `learn_many(model, n)` learns the first `n` rows. After the exception the model has learned
        some number of rows. Returns the set of these numbers.
        """
        *between, call = (partial(learn_many, n=n) for n in range(1, n_rows + 1))
        every = 1 if self.every == 1 else 3 * self.every
        return self._attack(state, call, LINES, every, between)
