"""Checks of the arguments of estimators."""

import inspect
import math
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .limits import LARGEST, LARGEST_WINDOW
from .values import Typed

# Spawn keys of random generators (see `numpy.random.SeedSequence`), so that draws for different
# purposes are independent. The generator of the trees has no spawn key.
LIFETIME_DRAWS = 1
DIRECTION_DRAWS = 2
LEVEL_DRAWS = 3
# Draws of the detectors and the drift monitor: samples that enter, and numbers V of ranks. Models
# with these draws draw no lifetimes, so both share a spawn key.
ENTRY_DRAWS = LIFETIME_DRAWS

# Largest number of characters of an argument's `repr` in a message.
LONGEST_TOLD = 80


def told(value: Any) -> str:
    """Return an argument's `repr` and type for a message; omit a long or multiline `repr`."""
    kind = type(value).__name__
    text = repr(value)
    return f"{text} ({kind})" if len(text) <= LONGEST_TOLD and "\n" not in text else f"a {kind}"


def is_real(value: Any) -> bool:
    """Return whether an argument is a real number; truth values are not numbers."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def is_integer(value: Any) -> bool:
    """Return whether an argument is an integer; truth values are not integers."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_integer(name: str, value: Any, least: int, *others: int | None) -> None:
    """Raise an error unless a value is an integer >= `least`, or in `others`."""
    if value is None and None in others:
        return
    if not is_integer(value) or (value < least and value not in others):
        wanted = " or ".join([*map(str, others), f"an integer >= {least}"])
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def plain_key(key: Any, what: str) -> Any:
    """Return a key with Python's integers and strings in place of NumPy's.

    Raises
    ------
    TypeError
        If the key is not a string, an integer, or a tuple of strings and integers.

    """
    # NumPy's times are not converted, because `item` would turn some times into integers.
    if isinstance(key, np.generic) and key.dtype.kind not in "mM":
        key = key.item()
    if isinstance(key, Typed):
        key = key.plain
    if type(key) in (str, int):
        return key
    if type(key) is tuple:
        return tuple([plain_key(item, what) for item in key])
    raise TypeError(f"{what} must be a string, an integer or a tuple of these, got {told(key)}")


def check_takes(name: str, function: Callable[..., Any], *arguments: str) -> None:
    """Raise an error if a function cannot be called with the positional `arguments`."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        call = f"{name}({', '.join(arguments)})"
        raise TypeError(f"{name} must be called by {call}, got {told(function)}: {error}") from None
    except ValueError:
        pass  # Functions in C may have no signature to check.


def check_index(name: str, value: Any, n: int) -> None:
    """Raise an error unless a value is an integer from 0 to n - 1."""
    if not is_integer(value) or not 0 <= value < n:
        raise ValueError(f"{name} must be in 0..{n - 1}, got {value!r}")


def check_window(window: Any) -> None:
    """Raise an error unless a window is None or an integer from 1 to `LARGEST_WINDOW`."""
    check_integer("window", window, 1, None)
    if window is not None and window > LARGEST_WINDOW:
        raise ValueError(f"window must be at most {LARGEST_WINDOW}, got {window!r}")


def check_flag(name: str, value: Any) -> None:
    """Raise an error unless an argument is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_missing(missing: Any) -> float:
    """Check `missing`; return 0 if an absent feature may count as 0, otherwise NaN."""
    is_mapping = isinstance(missing, Mapping)
    meanings = missing if is_mapping else {"": missing}
    for name, meaning in meanings.items():
        if not isinstance(meaning, str) or meaning not in ("unknown", "zero"):
            where = f"missing[{name!r}]" if is_mapping else "missing"
            raise ValueError(f'{where} must be "unknown" or "zero", got {meaning!r}')
    return 0.0 if "zero" in meanings.values() else math.nan


def check_ranges(ranges: Any, scale: bool) -> None:
    """Raise an error unless `ranges` is None, or maps features to (low, high) with `scale`."""
    if ranges is None:
        return
    if not isinstance(ranges, Mapping):
        raise ValueError(f"ranges must be None or map features to (low, high), got {ranges!r}")
    if not scale:
        raise ValueError(f"ranges need scale=True, got scale={scale!r}")
    for name, ends in ranges.items():
        is_pair = isinstance(ends, Sequence) and len(ends) == 2 and all(map(is_real, ends))
        if not is_pair or not -LARGEST <= ends[0] < ends[1] <= LARGEST:
            raise ValueError(f"range of feature {name!r} must be finite (low, high), got {ends!r}")


def draw_seed(seed: int | None) -> int:
    """Return the seed, or a random seed if `seed` is None."""
    return int(np.random.SeedSequence().entropy if seed is None else seed)  # type: ignore[arg-type]


def n_threads_of(n_jobs: int) -> int:
    """Return the number of threads for `n_jobs`; -1 means one thread per available processor."""
    if n_jobs != -1:
        return n_jobs
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_positive(name: str, value: Any) -> None:
    """Raise an error unless an argument is a finite number above 0."""
    if not is_real(value) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")


COUNTS = (
    "n_estimators n_partitions n_candidates n_neighbors n_cells max_samples max_columns shingle "
    "n_ready n_shards save_every in_flight max_restarts"
)
FLAGS = "skip_anomalies scale rescale split_pure autoregressive fit_intercept linear trusted"
# Checks of parameters that have the same meaning in all classes.
RULES: dict[str, Callable[[str, Any], object]] = {
    **dict.fromkeys(COUNTS.split(), lambda name, value: check_integer(name, value, 1)),
    **dict.fromkeys(FLAGS.split(), check_flag),
    "directions": lambda name, value: check_directions(value),
    "l2": check_positive,
    "max_bytes": lambda name, value: check_integer(name, value, 1, None),
    "min_samples_split": lambda name, value: check_integer(name, value, 2),
    "missing": lambda name, value: check_missing(value),
    "n_jobs": lambda name, value: check_integer(name, value, 1, -1),
    "seed": lambda name, value: check_integer(name, value, 0, None),
    "window": lambda name, value: check_window(value),
}


def check_arguments(model: object) -> None:
    """Check each argument of a model for which `RULES` has a check."""
    for name, value in vars(model).items():
        if name in RULES:
            RULES[name](name, value)


def is_distribution(value: Any) -> bool:
    """Return whether an argument is a frozen distribution of `scipy.stats`."""
    return callable(getattr(value, "rvs", None)) and callable(getattr(value, "support", None))


def check_lifetime(lifetime: Any) -> None:
    """Raise an error unless a lifetime is a number >= 0 or a distribution of such numbers."""
    if is_distribution(lifetime):
        least = lifetime.support()[0]
        if not least >= 0.0:
            raise ValueError(
                f"lifetime must not be negative, got a distribution with the minimum {least:g}"
            )
    elif not is_real(lifetime) or not lifetime >= 0.0:
        raise ValueError(f"lifetime must be a number >= 0 or a distribution, got {lifetime!r}")


def draw_lifetimes(lifetime: Any, n: int, seed: int | None) -> NDArray[np.float64]:
    """Return `n` lifetimes, shape (n,): draws from a distribution, or one number repeated."""
    if not is_distribution(lifetime):
        return np.full(n, float(lifetime))
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(LIFETIME_DRAWS,)))
    return np.asarray(lifetime.rvs(size=n, random_state=generator), dtype=np.float64)


def check_kernel(kernel: Any, lifetime: Any, gamma: Any) -> None:
    """Raise an error unless a kernel is known, and lifetime and gamma are positive."""
    if kernel not in ("laplace", "gaussian"):
        raise ValueError(f'kernel must be "laplace" or "gaussian", got {kernel!r}')
    check_positive("lifetime", lifetime)
    check_positive("gamma", gamma)


def lifetimes_after(lifetime: Callable[[int], Any], n: int, n_new: int, last: float) -> list[float]:
    """Return the lifetimes after `n` + 1 to `n` + `n_new` samples.

    `lifetime` maps a number of samples to a lifetime. The lifetimes must not decrease. `last` is
    the lifetime after `n` samples.
    """
    lifetimes = []
    for i in range(n + 1, n + n_new + 1):
        before, last = last, lifetime(i)
        if not (is_real(last) and last >= 0.0):
            raise ValueError(f"lifetime({i}) must be a number >= 0, got {last!r}")
        if last < before:
            raise ValueError(f"lifetime must not fall, got {last!r} after {before!r} at n = {i}")
        lifetimes.append(float(last))
    return lifetimes


# Cut directions, and their limit kernels: the kernels of infinitely many partitions with these
# cuts.
#
# If U is a matrix, an axis-aligned partition of U x is a partition of x. The cut directions of this
# partition are the rows of U (O'Reilly and Tran, Theorem 3.1). In this package, the kernel of an
# axis-aligned partition depends on |x - y|_1, a sum over the directions. O'Reilly and Tran instead
# divide this sum by the number of directions (Equation 10).


# Cut directions: None for the axes, a number of random directions, or mappings from feature to
# coefficient.
Directions: TypeAlias = int | Sequence[Mapping[Any, float]] | None
# Meaning of absent features: "unknown", "zero", or a mapping from names or prefixes of names to
# these words.
Missing: TypeAlias = str | Mapping[Any, str]


def check_directions(directions: Any) -> None:
    """Raise an error unless directions are None, an integer >= 1 or a sequence of mappings.

    Raises
    ------
    TypeError
        If the directions or a direction have the wrong type.
    ValueError
        If there is no direction, or a direction's coefficients are all 0 or not all finite.

    """
    if directions is None or is_integer(directions):
        check_integer("directions", directions, 1, None)
        return
    if not isinstance(directions, Sequence) or isinstance(directions, (str, bytes)):
        raise TypeError(f"directions must be None, an integer or mappings, got {directions!r}")
    if not directions:
        raise ValueError("directions must not be empty")
    for i, direction in enumerate(directions):
        if not isinstance(direction, Mapping):
            raise TypeError(f"direction {i} must map features to coefficients, got {direction!r}")
        for name, value in direction.items():
            if not is_real(value) or not math.isfinite(value):
                raise ValueError(f"direction {i} must be finite, got {value!r} for {name!r}")
        if not any(direction.values()):
            raise ValueError(f"direction {i} must have a coefficient that is not 0")


def coefficients(
    directions: Sequence[Mapping[Any, float]], names: Sequence[Hashable]
) -> NDArray[np.float64]:
    """Return the coefficients of directions as a matrix, shape (directions, features)."""
    rows = [[float(direction.get(name, 0.0)) for name in names] for direction in directions]
    return np.array(rows).reshape(len(directions), len(names))


def isotropic_scale(d: int) -> float:
    """Return the factor c such that E[c |<u, v>|] = |v|_2, for u uniform on the unit sphere in R^d.

    The factor is c = d kappa_d / (2 kappa_(d-1)), where kappa_d is the volume of the unit ball.
    Equation 9 of O'Reilly and Tran has the factor 1 / c.
    """
    return math.sqrt(math.pi) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))


def sphere_directions(n: int, d: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return random uniform directions, scaled for the isotropic exponential kernel.

    Returns
    -------
    An array U, shape (n, d), whose rows have the norm `isotropic_scale(d) / n`. As n grows,
    exp(-lifetime |U (x - y)|_1) tends to exp(-lifetime |x - y|_2).

    """
    rows = generator.standard_normal((n, d))
    norms: NDArray[np.float64] = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * (isotropic_scale(d) / n / norms)


def distances(
    directions: Directions, names: Sequence[Hashable], gaps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the distances h, shape (n,), such that the limit kernel is exp(-lifetime h).

    Parameters
    ----------
    directions
        The cut directions. For cuts along the axes, h = |v|_1. For random directions, h = |v|_2
        (the isotropic limit, Equation 9 of O'Reilly and Tran). For given directions, the rows of U,
        h = |U v|_1 (Equation 10).
    names
        The features.
    gaps
        Differences v of samples, shape (n, features). Missing values are NaN and add no distance.

    """
    gaps = np.nan_to_num(gaps, nan=0.0)
    if directions is not None and not isinstance(directions, Sequence):
        return np.asarray(np.linalg.norm(gaps, axis=1))
    if directions is not None:
        gaps = gaps @ coefficients(directions, names).T
    return np.abs(gaps).sum(axis=1)


def level_kernel(lifetime: float) -> float:
    """Return the mean of exp(-l |u - v|) at lifetime l, for independent u and v uniform in [0, 1].

    This mean, 2 (l - 1 + exp(-l)) / l^2, is the limit kernel of two levels of a category.
    """
    if lifetime < 1e-4:
        return 1.0 - lifetime / 3.0 + lifetime * lifetime / 12.0
    if lifetime == math.inf:
        return 0.0
    return 2.0 * (lifetime + math.expm1(-lifetime)) / (lifetime * lifetime)


def laplace_transform(lifetime: Any, h: float, n_levels: int = 0) -> float:
    """Return the mean of exp(-lifetime h): the limit kernel at distance h (Theorem 4.2).

    If two samples differ in `n_levels` categories, the result is the mean of exp(-lifetime h)
    level_kernel(lifetime)^n_levels. The mean has a closed form for a fixed lifetime and, if
    `n_levels` is 0, for gamma, exponential and uniform distributions (Corollary 4.2). Otherwise,
    the mean is a numerical integral. The theorem and the corollary are in the paper of O'Reilly and
    Tran.
    """
    if not is_distribution(lifetime):
        return math.exp(-float(lifetime) * h) * level_kernel(float(lifetime)) ** n_levels
    if n_levels > 0:
        mean = lifetime.expect(lambda drawn: math.exp(-drawn * h) * level_kernel(drawn) ** n_levels)
        return float(mean)
    name = lifetime.dist.name
    least, largest = (float(end) for end in lifetime.support())
    if name in ("gamma", "expon"):
        rest, variance = float(lifetime.mean()) - least, float(lifetime.var())
        power = -rest * rest / variance
        return math.exp(-least * h) * math.pow(1.0 + variance / rest * h, power)
    if name == "uniform":
        width = (largest - least) * h
        return math.exp(-least * h) * (-math.expm1(-width) / width if width > 0.0 else 1.0)
    return float(lifetime.expect(lambda value: np.exp(-value * h)))
