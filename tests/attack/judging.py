"""What a model shows of itself, by which it is told whether it is as before a call or as after."""

from __future__ import annotations

import os
import pickle

from .allocations import count_allocations, fail_allocation
from .interrupts import count_lines, interrupt

# Every so many lines, or allocations, are attacked; ATTACK_EVERY=1 attacks all, at all moments.
EVERY = int(os.environ.get("ATTACK_EVERY", "61"))


class Judge:
    """Attacks calls and judges what they leave.

    Parameters
    ----------
    looks
        What returns all that can be seen of a model, to be compared.
    go_on
        What lets a model learn some more samples.

    """

    def __init__(self, looks, go_on):
        self.looks = looks
        self.go_on = go_on

    def future(self, model):
        """Return how a model looks after some more samples."""
        self.go_on(model)
        return self.looks(model)

    def lines(self, state, call, first=1):
        """Raise an exception at the lines of a call; return whether models were as before, after.

        The set has 0 where a model was as before the call, and 1 where it was as after.
        """
        return self._attack(state, call, count_lines, interrupt, EVERY, first)

    def allocations(self, state, call):
        """Let each allocation of a call fail; returns like `lines`."""
        every = 1 + EVERY // 8
        return self._attack(state, call, count_allocations, fail_allocation, every, 0)

    def _attack(self, state, call, count, strike, every, first):
        # Kernels are compiled, or loaded, at their first use.
        call(pickle.loads(state))
        before, after = pickle.loads(state), pickle.loads(state)
        n = count(lambda: call(after))
        expected = self.looks(before), self.looks(after)
        futures = self.future(before), self.future(after)
        found = set()
        for k in range(1 + first % every, n + 1, every):
            model = pickle.loads(state)
            if not strike(lambda model=model: call(model), k):
                continue
            seen = self.looks(model)
            assert seen in expected, f"{k} of {n}"
            which = expected.index(seen)
            is_new = which not in found
            found.add(which)
            if is_new or k % 10 == 0:
                assert self.future(model) == futures[which], f"{k} of {n}"
        return found

    def lines_of_many(self, state, learn_many, n_rows):
        """Raise an exception at lines of a call that learns many rows.

        `learn_many(model, n)` learns the first `n` rows. The model is as after some number of them;
        returns these numbers.
        """
        learn_many(pickle.loads(state), n_rows)
        reached, futures = [], []
        for n in range(n_rows + 1):
            model = pickle.loads(state)
            if n:
                learn_many(model, n)
            reached.append(self.looks(model))
            futures.append(self.future(model))
        whole = pickle.loads(state)
        n_lines = count_lines(lambda: learn_many(whole, n_rows))
        found = set()
        for k in range(1, n_lines + 1, EVERY):
            model = pickle.loads(state)
            assert interrupt(lambda model=model: learn_many(model, n_rows), k)
            seen = self.looks(model)
            assert seen in reached, f"{k} of {n_lines}"
            which = reached.index(seen)
            if which not in found:
                found.add(which)
                assert self.future(model) == futures[which], f"{k} of {n_lines}"
        return found
