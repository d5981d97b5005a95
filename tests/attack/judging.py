"""Whether a call that fails at some point leaves a model as before it, or as after it."""

import os
import pickle
from functools import partial

from .allocations import count_allocations, fail_allocation
from .interrupts import count_lines, interrupt
from .tally import note

LINES = "exceptions at lines of Python"
ALLOCATIONS = "allocations that fail"
WAYS = {LINES: (count_lines, interrupt), ALLOCATIONS: (count_allocations, fail_allocation)}

# Lines of a call that are attacked at most.
MOST = 5000


# Whether all cases are attacked, and not some of them, as in the test suite.
IS_FULL = "ATTACK_EVERY" in os.environ


def some(cases, every=3):
    """Return every third of the cases; all of them with `ATTACK_EVERY`."""
    return list(cases)[:: 1 if IS_FULL else every]


class Judge:
    """Lets calls fail, and judges what they leave.

    Parameters
    ----------
    looks
        What returns all that can be seen of a model, to be compared.
    go_on
        What lets a model learn some more samples.
    every
        Every so many lines are attacked, and every eighth as many allocations. `ATTACK_EVERY` in
        the environment overrides it; 1 attacks all.

    """

    def __init__(self, looks, go_on, every):
        self.looks = looks
        self.go_on = go_on
        self.every = int(os.environ.get("ATTACK_EVERY", every))

    def _future(self, model):
        """Return how a model looks after some more samples."""
        self.go_on(model)
        return self.looks(model)

    def lines(self, state, call):
        """Raise an exception at the lines of a call; return whether models were as before, after.

        The set has 0 where a model was as before the call, and 1 where it was as after.
        """
        return self._attack(state, call, LINES, self.every)

    def allocations(self, state, call):
        """Let allocations of a call fail; returns like `lines`."""
        return self._attack(state, call, ALLOCATIONS, 1 + self.every // 8)

    def _attack(self, state, call, what, every, between=()):
        """Let a call fail at every so many places; `between` has calls that do a part of it."""
        count, strike = WAYS[what]
        # Kernels are compiled, or loaded, at their first use.
        call(pickle.loads(state))
        models = [pickle.loads(state) for _ in range(len(between) + 2)]
        for part, model in zip(between, models[1:], strict=False):
            part(model)
        n = count(lambda: call(models[-1]))
        expected = [self.looks(model) for model in models]
        futures = [self._future(model) for model in models]
        # Where there are few, all of them; of very many those that are evenly spread.
        every = max(1, min(every, n // 8), n // MOST)
        found, n_struck = set(), 0
        for k in range(1 + n % every, n + 1, every):
            model = pickle.loads(state)
            if not strike(lambda model=model: call(model), k):
                # What is kept from one call to the next needs no memory again.
                assert what == ALLOCATIONS, f"{k} of {n}"
                continue
            n_struck += 1
            seen = self.looks(model)
            assert seen in expected, f"{k} of {n}"
            # A call that only reads leaves what there was.
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

        `learn_many(model, n)` learns the first `n` rows. The model is as after some number of them;
        returns these numbers.
        """
        *between, call = (partial(learn_many, n=n) for n in range(1, n_rows + 1))
        every = 1 if self.every == 1 else 3 * self.every
        return self._attack(state, call, LINES, every, between)
