"""Signals at any moment, whose handler raises, as Ctrl-C does."""

import copy
import signal
import time

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


class History:
    """A model as it is after each number of samples, and after some more.

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

    def __init__(self, new, samples, learn, look):
        self.new, self.samples, self.learn, self.look = new, samples, learn, look
        self._model, self._looks = new(), []

    def at(self, n):
        """Return how the model looks after `n` samples."""
        while len(self._looks) <= n:
            self._looks.append(self.look(self._model))
            if len(self._looks) <= len(self.samples):
                self.learn(self._model, self.samples[len(self._looks) - 1])
        return self._looks[n]

    def seconds(self, n):
        """Return how long the model takes to learn the first `n` samples."""
        model = self.new()
        began = time.perf_counter()
        for sample in self.samples[:n]:
            self.learn(model, sample)
        return time.perf_counter() - began


def _goes_on(history, model, k, more):
    """Tell whether a copy of a model goes on as one that has learned `k` samples."""
    other = copy.deepcopy(model)
    for sample in history.samples[k : k + more]:
        history.learn(other, sample)
    return history.look(other) == history.at(k + more)


def attack(history, n_signals, rng, n=40, more=10):
    """Interrupt models while they learn samples one by one, and judge what is left.

    A model has to be as before the call that was interrupted or as after it, and to go on as such a
    one. Returns how many signals came in time.
    """
    # What is compiled at the first time would take nearly all signals.
    longest = min(history.seconds(n) for _ in range(3))
    n_struck = 0
    for _ in range(n_signals):
        model, done = history.new(), []

        def learn(model=model, done=done):
            for sample in history.samples[:n]:
                history.learn(model, sample)
                done.append(1)

        if not strike(learn, rng.uniform(1e-5, longest)):
            continue
        n_struck += 1
        seen = history.look(model)
        possible = [k for k in (len(done), len(done) + 1) if history.at(k) == seen]
        assert possible, f"neither as after {len(done)} samples nor after the next"
        assert any(_goes_on(history, model, k, more) for k in possible), (
            f"goes on otherwise after {len(done)} samples"
        )
    note("signals whose handler raises", n_struck)
    return n_struck
