"""Signals at any moment, whose handler raises, as Ctrl-C does."""

import copy
import signal
import time
from functools import partial

from .tally import note


class Interrupted(BaseException):
    """What the handler raises."""


def _raise(number, frame):
    raise Interrupted


def strike(call, seconds):
    """Run a call with a signal after some time; tell whether it came before the end."""
    before = signal.signal(signal.SIGALRM, _raise)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except Interrupted:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    return False


def attack(new, samples, learn, look, n_signals, rng, n=40, more=10):
    """Interrupt models while they learn samples one by one, and judge what is left.

    A model has to be as before the call that was interrupted or as after it, and to go on as such a
    one. Returns how many signals came in time.

    Parameters
    ----------
    new
        Returns the model as it is at first.
    samples
        What it learns.
    learn
        Lets a model learn one of them.
    look
        Returns what can be seen of a model.

    """

    def learn_all(model, own, done):
        for sample in own:
            learn(model, sample)
            done.append(sample)

    whole = new()
    looks = [look(whole)]
    for sample in samples:
        learn(whole, sample)
        looks.append(look(whole))
    # What is compiled at the first time would take nearly all signals.
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        learn_all(new(), samples[:n], [])
        seconds.append(time.perf_counter() - began)
    n_struck, longest = 0, min(seconds)
    for _ in range(n_signals):
        model, done = new(), []
        if not strike(partial(learn_all, model, samples[:n], done), rng.uniform(1e-5, longest)):
            continue
        n_struck += 1
        seen, n_done = look(model), len(done)
        possible = [k for k in (n_done, n_done + 1) if looks[k] == seen]
        assert possible, f"neither as after {n_done} samples nor after the next"
        futures = {k: copy.deepcopy(model) for k in possible}
        for k, future in futures.items():
            learn_all(future, samples[k : k + more], [])
        goes_on = any(look(future) == looks[k + more] for k, future in futures.items())
        assert goes_on, f"goes on otherwise after {n_done} samples"
    note("signals whose handler raises", n_struck)
    return n_struck
