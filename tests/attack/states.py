"""Whether an interrupted call leaves a model as before it, or as after it."""

from __future__ import annotations

import os
import pickle

from attack.interrupts import count_lines, interrupt

# Every so many lines are attacked; ATTACK_EVERY=1 attacks all.
EVERY = int(os.environ.get("ATTACK_EVERY", "11"))


def attack(state, call, looks, goes_on, every=EVERY):
    """Interrupt a call at its lines; returns whether models were as before it (0) or after (1).

    `looks` returns what can be seen of a model, `goes_on` the same once it has learned more.
    """
    # Kernels are compiled, or loaded, at their first use.
    call(pickle.loads(state))
    before, after = pickle.loads(state), pickle.loads(state)
    n = count_lines(lambda: call(after))
    assert n > 0
    expected = looks(before), looks(after)
    futures = goes_on(before), goes_on(after)
    found = set()
    every = min(every, EVERY)
    for k in range(1 if every == 1 else 1 + n % every, n + 1, every):
        model = pickle.loads(state)
        assert interrupt(lambda model=model: call(model), k)
        seen = looks(model)
        assert seen in expected, f"line {k} of {n}"
        # A call that only reads leaves what there was.
        which = expected.index(seen)
        is_new = which not in found
        found.add(which)
        if is_new or k % 10 == 0:
            assert goes_on(model) == futures[which], f"line {k} of {n}"
    return found


def attack_many(state, call, n_rows, looks, n_known):
    """Interrupt `call(model, n_rows)`, which learns rows; returns the numbers of samples reached.

    A model is as after as many rows as these numbers say.
    """
    reached = []
    for n in range(n_rows + 1):
        model = pickle.loads(state)
        if n:
            call(model, n)
        reached.append(looks(model)[0])
    whole = pickle.loads(state)
    n_lines = count_lines(lambda: call(whole, n_rows))
    counts = set()
    for k in range(1, n_lines + 1, 3 * EVERY - 2):
        model = pickle.loads(state)
        assert interrupt(lambda model=model: call(model, n_rows), k)
        seen = looks(model)[0]
        assert seen == reached[seen[0] - n_known], f"line {k} of {n_lines}"
        counts.add(seen[0])
    return counts
