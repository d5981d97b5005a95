"""Check that a failed call leaves a model in its state before the call or after the call."""

import os
import pickle
from functools import partial

from .allocations import count_allocations, fail_allocation
from .interrupts import count_lines, interrupt
from .tally import note

LINES = "exceptions at lines of Python"
ALLOCATIONS = "allocations that fail"
WAYS = {LINES: (count_lines, interrupt), ALLOCATIONS: (count_allocations, fail_allocation)}

# Of a call, fewer than twice this number of lines or allocations are attacked.
MOST = 5000


# Whether all cases are attacked. By default the test suite attacks some of the cases.
IS_FULL = "ATTACK_EVERY" in os.environ


def some(cases, every=3):
    """Return one of every `every` cases, or all cases if `ATTACK_EVERY` is set."""
    return list(cases)[:: 1 if IS_FULL else every]


class Judge:
    """Judge that lets calls fail, and checks the resulting models.

    Parameters
    ----------
    looks
        A function that returns all visible state of a model, for comparison.
    go_on
        A function that lets a model learn more samples.
    every
        The step between attacked lines. The step between attacked allocations is about an
        eighth of `every`. The environment variable `ATTACK_EVERY` is used instead if it is
        smaller; the value 1 attacks all lines and allocations of calls with fewer than 10,000
        of them.

    """

    def __init__(self, looks, go_on, every):
        self.looks = looks
        self.go_on = go_on
        self.every = min(every, int(os.environ.get("ATTACK_EVERY", every)))

    def _future(self, model):
        """Return the visible state of a model after more samples."""
        self.go_on(model)
        return self.looks(model)

    def lines(self, state, call):
        """Raise an exception at lines of a call; return the set of states of the models afterwards.

        State 0 is the state before the call, and state 1 is the state after the call.
        """
        return self._attack(state, call, LINES, self.every)

    def allocations(self, state, call):
        """Raise errors at allocations of a call; return the same set as `lines`."""
        return self._attack(state, call, ALLOCATIONS, 1 + self.every // 8)

    def _attack(self, state, call, what, every, between=()):
        """Let a call fail at some lines or allocations; calls in `between` do parts of its work."""
        count, strike = WAYS[what]
        # The first call compiles or loads kernels, and is not attacked.
        call(pickle.loads(state))
        models = [pickle.loads(state) for _ in range(len(between) + 2)]
        for part, model in zip(between, models[1:], strict=False):
            part(model)
        n = count(lambda: call(models[-1]))
        expected = [self.looks(model) for model in models]
        futures = [self._future(model) for model in models]
        # At least 8 and fewer than 2 * `MOST` evenly spaced lines or allocations are attacked, or
        # all of them if there are fewer than 8.
        every = max(1, min(every, n // 8), n // MOST)
        found, n_struck = set(), 0
        for k in range(1 + n % every, n + 1, every):
            model = pickle.loads(state)
            if not strike(lambda model=model: call(model), k):
                # A call may make fewer allocations, because it reuses memory of an earlier call.
                assert what == ALLOCATIONS, f"{k} of {n}"
                continue
            n_struck += 1
            # The tracer may raise at the end of a `with` block, where the lock is still held.
            # Python handles no signals at this point.
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
        """Raise an exception at lines of a call that learns many rows.

        `learn_many(model, n)` learns the first `n` rows. Returns the set of the numbers of rows
        that the models have learned afterwards.
        """
        *between, call = (partial(learn_many, n=n) for n in range(1, n_rows + 1))
        every = 1 if self.every == 1 else 3 * self.every
        return self._attack(state, call, LINES, every, between)
