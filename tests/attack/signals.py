"""Send signals at random times to a handler that raises, as Ctrl-C does."""

import copy
import signal
import time
from functools import partial

from .interrupts import Interrupted
from .tally import note


def _raise(number, frame):
    raise Interrupted


def strike(call, seconds):
    """Run a call, and send a signal after some seconds; return whether the call was interrupted."""
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
    """Interrupt models while they learn samples one by one, and check the models.

    A model must have its state before or after the interrupted call, and must continue to learn
    from this state.

    Parameters
    ----------
    new
        A function that returns a new model.
    samples
        The samples that a model learns.
    learn
        A function that lets a model learn a sample.
    look
        A function that returns the visible state of a model.
    n_signals
        The number of signals that must come before a model has learned all samples.

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
    # All kernels are compiled by now.
    n_struck, n_missed, longest = 0, 0, 1.0
    while n_struck < n_signals:
        model, done = new(), []
        began = time.perf_counter()
        if not strike(partial(learn_all, model, samples[:n], done), rng.uniform(1e-5, longest)):
            # The signal came too late, so the next signal is sent earlier.
            longest = time.perf_counter() - began
            n_missed += 1
            assert n_missed < 100 * n_signals, "signals do not come"
            continue
        n_struck += 1
        seen, n_done = look(model), len(done)
        possible = [k for k in (n_done, n_done + 1) if looks[k] == seen]
        assert possible, f"the state is neither that after {n_done} samples nor that after the next"
        futures = {k: copy.deepcopy(model) for k in possible}
        for k, future in futures.items():
            learn_all(future, samples[k : k + more], [])
        goes_on = any(look(future) == looks[k + more] for k, future in futures.items())
        assert goes_on, f"the model continues differently after {n_done} samples"
    note("signals whose handler raises", n_struck)
