"""Checks of the arguments of estimators."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from river import base

from .limits import LARGEST, LARGEST_WINDOW

# Streams of random numbers of a seed, besides that of the trees' own.
LIFETIME_DRAWS = 1
DIRECTION_DRAWS = 2
LEVEL_DRAWS = 3
# Random cut trees, which samples enter at random, have no lifetimes to draw.
ENTRY_DRAWS = LIFETIME_DRAWS

# Letters of an argument's own text that a message shows.
LONGEST_TOLD = 80


def told(value: Any) -> str:
    """Return what an argument is, for a message: a model's own text would take many lines."""
    kind = type(value).__name__
    text = repr(value)
    return f"{text} ({kind})" if len(text) <= LONGEST_TOLD and "\n" not in text else f"a {kind}"


def is_real(value: Any) -> bool:
    """Tell whether an argument is a real number and no truth value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_integer(name: str, value: Any, least: int) -> None:
    """Refuse an argument that is no integer, or one below `least`."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def check_takes(name: str, function: Callable[..., Any], *given: str) -> None:
    """Refuse a function that cannot be called with the arguments that are to be given."""
    try:
        inspect.signature(function).bind(*given)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a function that is called by {name}({', '.join(given)}), "
            f"got {told(function)}: {error}"
        ) from None
    except ValueError:
        pass  # What is not written in Python may not tell.


def check_jobs(n_jobs: Any) -> None:
    """Refuse a number of threads that is none; -1 stands for one for each processor."""
    if isinstance(n_jobs, (int, np.integer)) and n_jobs == -1:
        return
    try:
        check_integer("n_jobs", n_jobs, 1)
    except ValueError:
        raise ValueError(f"n_jobs must be -1 or an integer >= 1, got {n_jobs!r}") from None


def check_place(name: str, value: Any, n: int) -> None:
    """Refuse an argument that is none of the numbers 0 to n - 1."""
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_integer or not 0 <= value < n:
        raise ValueError(f"{name} must be in 0..{n - 1}, got {value!r}")


def check_window(window: Any) -> None:
    """Refuse a number of samples that are held at most which is none; None holds all."""
    if window is not None:
        check_integer("window", window, 1)
        if window > LARGEST_WINDOW:
            raise ValueError(f"window must be at most {LARGEST_WINDOW}, got {window!r}")


def check_flag(name: str, value: Any) -> None:
    """Refuse an argument that is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_missing(missing: Any) -> float:
    """Return what a missing value counts as: NaN, which is unknown, or 0."""
    if missing not in ("unknown", "zero"):
        raise ValueError(f'missing must be "unknown" or "zero", got {missing!r}')
    return math.nan if missing == "unknown" else 0.0


def check_ranges(ranges: Any, scale: bool) -> None:
    """Refuse what is neither None nor a mapping from features to pairs of a low and a high end."""
    if ranges is None:
        return
    if not isinstance(ranges, Mapping):
        raise ValueError(
            f"ranges must be None or a mapping from feature to (low, high), got {ranges!r}"
        )
    if not scale:
        raise ValueError(f"ranges are what features are scaled by, but scale is {scale!r}")
    for name, ends in ranges.items():
        is_pair = isinstance(ends, Sequence) and len(ends) == 2 and all(map(is_real, ends))
        if not is_pair or not -LARGEST <= ends[0] < ends[1] <= LARGEST:
            raise ValueError(
                f"the range of feature {name!r} must be two finite numbers, the lower one first, "
                f"got {ends!r}"
            )


def new_entropy() -> int:
    """Return what random numbers begin with where no seed is given."""
    return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]


def check_seed(seed: Any) -> None:
    """Refuse what is neither None nor an integer from 0 on."""
    if seed is not None:
        try:
            check_integer("seed", seed, 0)
        except ValueError:
            raise ValueError(f"seed must be None or an integer >= 0, got {seed!r}") from None


def check_positive(name: str, value: Any) -> None:
    """Refuse an argument that is no finite number above 0."""
    if not is_real(value) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")


def is_distribution(value: Any) -> bool:
    """Tell whether an argument is a frozen distribution of `scipy.stats`."""
    return callable(getattr(value, "rvs", None)) and callable(getattr(value, "support", None))


def check_lifetime(lifetime: Any) -> None:
    """Refuse a lifetime that is neither a number >= 0 nor a distribution of such numbers."""
    if is_distribution(lifetime):
        if not lifetime.support()[0] >= 0.0:
            raise ValueError(
                "lifetime must not be negative, got a distribution with support from "
                f"{lifetime.support()[0]:g}"
            )
    elif not is_real(lifetime) or not lifetime >= 0.0:
        raise ValueError(f"lifetime must be a number >= 0 or a distribution, got {lifetime!r}")


def draw_lifetimes(lifetime: Any, n: int, seed: int | None) -> NDArray[np.float64]:
    """Return `n` lifetimes: draws from a distribution, or a number as often."""
    if not is_distribution(lifetime):
        return np.full(n, float(lifetime))
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(LIFETIME_DRAWS,)))
    return np.asarray(lifetime.rvs(size=n, random_state=generator), dtype=np.float64)


class ClonesLifetime(base.Base):
    """An estimator whose clones have the very distribution of lifetimes that it has.

    A deep copy would be another one by its representation.
    """

    lifetime: Any

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """Return a fresh estimator with the same parameters; see `river.base.Base.clone`."""
        made = super().clone(new_params, include_attributes)
        lifetime = (new_params or {}).get("lifetime", self.lifetime)
        if is_distribution(lifetime):
            made.lifetime = lifetime
        return made


def check_kernel(kernel: Any, lifetime: Any, gamma: Any) -> None:
    """Refuse what is no kernel, or no rate of one."""
    if kernel not in ("laplace", "gaussian"):
        raise ValueError(f'kernel must be "laplace" or "gaussian", got {kernel!r}')
    check_positive("lifetime", lifetime)
    check_positive("gamma", gamma)


def lifetimes_after(lifetime: Callable[[int], Any], n: int, more: int, last: float) -> list[float]:
    """Return lifetimes, which are a function, after each of `more` samples.

    Before them there are `n` samples, with the last lifetime; none may be less than one before.
    """
    found = []
    for i in range(n + 1, n + more + 1):
        before, last = last, lifetime(i)
        if not (is_real(last) and last >= 0.0):
            raise ValueError(f"lifetime({i}) must be a number >= 0, got {last!r}")
        if last < before:
            raise ValueError(f"lifetime must not fall, got {last!r} after {before!r} at n = {i}")
        found.append(float(last))
    return found
