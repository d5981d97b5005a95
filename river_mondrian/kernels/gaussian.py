"""Target posterior of a Mondrian tree: hierarchical Gaussian, by messages; or plain means.

The mean of a node given its parent's is normal. Its variance is the rise of a logistic function
over the time between the two, phi = sigma(gamma2 tau) - sigma(gamma2 tau_parent), and a target
given its leaf's mean has the variance `NOISE`: both in units of gamma1, so that messages do not
depend on the targets' scale, which changes with each sample.

A node keeps for each side what the samples there say of the node's own mean: the precision and the
mean of a normal likelihood. A message is unknown, with a negative precision, once a walk has
passed that side; `settle` goes after those and nothing else. So a sample costs one pass along its
path.

Plain means (`POOLS`) travel the same way: the message is then a weight and a mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .access import lower_of, node_at, point_at, target_at, time_at, tree_at, upper_of
from .layout import (
    COLLECT,
    COLLECT_DENSITIES,
    DIM,
    EMPTY,
    EXTEND,
    FIND_DENSITIES,
    FOREST_WIDTH,
    GAMMA2,
    LEARN_SCALES,
    LEFT,
    LIFETIME,
    MESSAGES,
    N_DIMS,
    N_ROWS,
    N_TREES,
    NOISE,
    NOISE_VARIANCE,
    POOLS,
    PREDICT_ROWS,
    PRIOR_SCALE,
    ROOT,
    TAILS,
    TOLD,
    TREES,
    UNKNOWN,
    WALK_END,
    WALK_REF,
    Y_MEAN,
    Y_SQUARES,
    Y_WEIGHT,
)
from .memory import (
    allocate,
    call3,
    call4,
    call6,
    called,
    exact_kernel,
    f64,
    i32,
    i64,
    inlined,
    kernel,
    merged,
    put_f64,
    put_i64,
    release,
    room_for,
)
from .mondrian import LANES, START, linear_dimension, set_walks
from .scaling import scale_into, store_values
from .tails import (
    DENSITIES,
    DENSITIES_WIDTH,
    EXTRA,
    N_SCALES,
    SCALES,
    TARGET,
    add_density,
    precision_at,
    tells,
    variance_over_scales,
)
from .walks import (
    DEPTH,
    ENTRY_BYTES,
    ETA,
    FIRST_DEPTH,
    REACH,
    REF,
    STAYS,
)

# A rule on (0, 1): Gauss-Legendre's with the positions squared, as (position, weight).
_ABSCISSAS, _WEIGHTS = np.polynomial.legendre.leggauss(6)
_ROOTS = (_ABSCISSAS + 1.0) / 2.0
RULE = tuple(zip((_ROOTS**2).tolist(), (_ROOTS * _WEIGHTS).tolist(), strict=True))

# Weight that no sum in float64 would notice.
NOTHING = 1e-17

room_of_forest = room_for(FOREST_WIDTH)


@inlined
def message_at(node: int, side: int) -> int:
    """Return the address of a side's message: its precision, then its mean."""
    return node + 4 * MESSAGES + 16 * side


@inlined
def rise_over(decay: float, span: float) -> float:
    """Return sigma(a + span) - sigma(a) without cancellation, from decay = exp(-a)."""
    lost = -math.expm1(-span)
    return decay * lost / ((1.0 + decay) * (1.0 + decay * (1.0 - lost)))


@kernel
def read_rise(decay: float, span: float) -> float:
    """Return what `rise_over` does, for Python."""
    return rise_over(decay, span)


@inlined
def passed_on(precision: float, rise: float) -> float:
    """Return the precision of a message from a node once it has come up to the parent."""
    return 1.0 / (1.0 / precision + rise)


@inlined
def leaf_precision(forest: int, tree: int, ref: int) -> float:
    """Return the precision of what a leaf's samples say of its mean."""
    if ref < 0:
        weight = f64(target_at(forest, ~ref), 1)
    else:
        weight = f64(message_at(node_at(forest, tree, ref), 0), 0)
    return weight if i64(forest, POOLS) == 1 else weight / f64(tree, NOISE)


@inlined
def leaf_mean(forest: int, tree: int, ref: int) -> float:
    """Return the weighted mean of a leaf's targets."""
    if ref < 0:
        return f64(target_at(forest, ~ref), 0)
    return f64(message_at(node_at(forest, tree, ref), 0), 1)


@inlined
def is_leaf(forest: int, tree: int, ref: int) -> bool:
    """Tell whether a reference names a leaf."""
    return ref < 0 or i32(node_at(forest, tree, ref), DIM) < 0


@inlined
def joint_precision(node: int) -> float:
    """Return the precision of both sides' messages together."""
    return f64(message_at(node, 0), 0) + f64(message_at(node, 1), 0)


@inlined
def joint_mean(node: int) -> float:
    """Return the mean of both sides' messages together."""
    left, right = message_at(node, 0), message_at(node, 1)
    total = f64(left, 0) + f64(right, 0)
    share = f64(right, 0) / total if total > 0.0 else 0.0
    return f64(left, 1) + (f64(right, 1) - f64(left, 1)) * share


@inlined
def rise_to(forest: int, tree: int, parent: int, node: int) -> float:
    """Return the rise from a node's parent to an internal node, kept until one of them changes.

    Nodes are given by their rows, the root's parent as 0.
    """
    rise = f64(time_at(node), 1)
    if rise < 0.0:
        gamma2 = f64(tree, GAMMA2)
        above = f64(time_at(parent), 0) if parent != 0 else 0.0
        rise = rise_over(math.exp(-gamma2 * above), gamma2 * (f64(time_at(node), 0) - above))
        put_f64(time_at(node), 1, rise)
    return rise


@inlined
def rise_to_end(forest: int, tree: int, parent: int) -> float:
    """Return the rise from a node to a leaf below it."""
    gamma2 = f64(tree, GAMMA2)
    above = f64(time_at(parent), 0) if parent != 0 else 0.0
    return rise_over(math.exp(-gamma2 * above), gamma2 * (f64(tree, LIFETIME) - above))


@kernel
def extent(forest: int) -> float:
    """Return the sum of the side lengths of the box of all samples."""
    tree = tree_at(forest, 0)
    root = i64(tree, ROOT)
    if root < 0:
        return 0.0
    node = node_at(forest, tree, root)
    return linear_dimension(lower_of(forest, node), upper_of(forest, node), i64(forest, N_DIMS))


@kernel
def settle(forest: int, first: int, last: int) -> None:
    """Bring the messages of trees `first` to `last` up to date."""
    # The rows from the root down to the node that is looked at, after a 0.
    entries = FIRST_DEPTH
    path: int = allocate(np.int64(entries))
    put_i64(path, 0, 0)
    pools = i64(forest, POOLS) == 1
    for t in range(first, last):
        tree = tree_at(forest, t)
        if i64(tree, ROOT) == EMPTY or is_leaf(forest, tree, i64(tree, ROOT)):
            continue
        put_i64(path, 1, node_at(forest, tree, i64(tree, ROOT)))
        depth = 1
        while depth > 0:
            node = i64(path, depth)
            waits = False
            for side in range(2):
                message = message_at(node, side)
                if not f64(message, 0) < 0.0:
                    continue
                child = i32(node, LEFT + side)
                if not is_leaf(forest, tree, child):
                    waits = True
                    depth += 1
                    if depth == entries:
                        longer: int = allocate(np.int64(2 * entries))
                        for k in range(entries):
                            put_i64(longer, k, i64(path, k))
                        release(path)
                        path = longer
                        entries *= 2
                    put_i64(path, depth, node_at(forest, tree, child))
                    break
                precision = leaf_precision(forest, tree, child)
                if not pools:
                    precision = passed_on(precision, rise_to_end(forest, tree, node))
                put_f64(message, 0, precision)
                put_f64(message, 1, leaf_mean(forest, tree, child))
            if waits:
                continue
            parent = i64(path, depth - 1)
            # Predictions need the rise to the root, too.
            rise = 0.0 if pools else rise_to(forest, tree, parent, node)
            if parent != 0:
                left = i32(parent, LEFT)
                is_left = left >= 0 and node_at(forest, tree, left) == node
                message = message_at(parent, 0 if is_left else 1)
                precision = joint_precision(node)
                if not pools:
                    precision = passed_on(precision, rise)
                put_f64(message, 0, precision)
                put_f64(message, 1, joint_mean(node))
            depth -= 1
    release(path)


@kernel
def forget(forest: int, t: int) -> None:
    """Make all messages of a tree unknown, since what they depend on has changed."""
    tree = tree_at(forest, t)
    for j in range(i64(tree, N_ROWS)):
        node = node_at(forest, tree, j)
        if i32(node, DIM) >= 0:
            put_f64(message_at(node, 0), 0, UNKNOWN)
            put_f64(message_at(node, 1), 0, UNKNOWN)
            put_f64(time_at(node), 1, UNKNOWN)


@inlined
def posterior_below(
    forest: int, tree: int, parent: int, ref: int, rise: float, mean: float, variance: float
) -> tuple[float, float, float]:
    """Return a node's share of its parent's mean, and its own posterior mean and variance.

    `parent` is the row of the parent, 0 for the root, which has the prior's mean as its parent's.
    """
    if parent != 0:
        message = message_at(parent, 0 if i32(parent, LEFT) == ref else 1)
        precision, said = f64(message, 0), f64(message, 1)
    elif is_leaf(forest, tree, ref):
        precision = passed_on(leaf_precision(forest, tree, ref), rise)
        said = leaf_mean(forest, tree, ref)
    else:
        node = node_at(forest, tree, ref)
        precision = passed_on(joint_precision(node), rise)
        said = joint_mean(node)
    # Plain means have no prior; where no sample has a weight the parent's mean stands in.
    share = 0.0 if i64(forest, POOLS) == 1 and precision > 0.0 else 1.0 - rise * precision
    share = max(share, 0.0)
    return share, said + share * (mean - said), share * (share * variance + rise)


@exact_kernel
def add_to_prior(forest: int, y: float, weight: float) -> None:
    """Add a target to the running mean and sum of squares."""
    if weight == 0.0:
        return
    total = f64(forest, Y_WEIGHT) + weight
    gap = y - f64(forest, Y_MEAN)
    mean = f64(forest, Y_MEAN) + gap * weight / total
    put_f64(forest, Y_WEIGHT, total)
    put_f64(forest, Y_MEAN, mean)
    put_f64(forest, Y_SQUARES, f64(forest, Y_SQUARES) + weight * gap * (y - mean))


@kernel
def put_target(forest: int, y: float, weight: float, point: int) -> None:
    """Write the target and weight of a stored point."""
    put_f64(target_at(forest, point), 0, y)
    put_f64(target_at(forest, point), 1, weight)


@inlined
def variance_of_targets(forest: int) -> float:
    """Return the running variance of the targets, 0 before there is any."""
    weight = f64(forest, Y_WEIGHT)
    return f64(forest, Y_SQUARES) / weight if weight > 0.0 else 0.0


@inlined
def scale_of(forest: int, tree: int) -> float:
    """Return gamma1: what variances in its units are multiplied by."""
    if f64(forest, PRIOR_SCALE) > 0.0:
        return f64(forest, PRIOR_SCALE)
    if f64(forest, NOISE_VARIANCE) > 0.0:
        return f64(forest, NOISE_VARIANCE) / f64(tree, NOISE)
    # The prior variance of a target is that of all of them.
    prior = rise_to_end(forest, tree, np.int64(0)) + f64(tree, NOISE)
    return variance_of_targets(forest) / prior


@kernel
def scale_of_first(forest: int) -> float:
    """Return gamma1 of the first tree."""
    return scale_of(forest, tree_at(forest, 0))


@inlined
def moments_of_branch(eta: float, span: float, gamma2: float, decay: float) -> tuple[float, float]:
    """Return the first two moments of how far a branch has risen where a sample leaves it.

    The time T since the branch began is exponential with rate `eta`, truncated to `span`, and the
    rise r, as a share of the whole branch's, is a logistic function of it. Where many branches
    leave early the rule runs over the quantiles of T, elsewhere over the values of r, of whose
    distribution function it takes the integral. The error is below 2e-4.
    """
    b = gamma2 * span
    kept = math.exp(-b)
    lost = -math.expm1(-b)
    end = 1.0 + decay * kept
    stays = math.exp(-eta * span)
    leaves = -math.expm1(-eta * span)
    # A branch without any length has no rise either.
    if not (lost > 0.0 and leaves > 0.0):
        return 0.0, 0.0
    power = eta / gamma2
    first, second = 0.0, 0.0
    for rest, weight in RULE:
        if power < 1.0:
            r = 1.0 - rest
            # exp(-gamma2 T) at the time at which the rise is r.
            left = (kept * (1.0 + decay) + lost * rest) / (end + decay * lost * r)
            share = weight * (left**power - stays) / leaves
            first += share
            second += 2.0 * r * share
        else:
            # exp(-gamma2 T) at the quantile 1 - rest.
            left = (rest * leaves + stays) ** (1.0 / power)
            r = (1.0 - left) / (1.0 + decay * left) * end / lost
            first += weight * r
            second += weight * r * r
    return first, second


def collector(
    add: Callable[[int, float, float, float, float, int, float], None], width: int = 0
) -> Callable[[int, int, int, int], None]:
    """Make the function for a walk's prediction from its path: `add` takes each component.

    It gets the output, the weight, the mean, the variance, the targets' running mean, the address
    of their law, and their variance. Each tree has an output of its own, `width` reals on, or all
    share one.
    """

    @merged
    def collect(forest: int, t: int, lane: int, out: int) -> None:
        tree = tree_at(forest, t)
        pools = i64(forest, POOLS) == 1
        lifetime = f64(tree, LIFETIME)
        gamma2, noise = f64(tree, GAMMA2), f64(tree, NOISE)
        centre = f64(forest, Y_MEAN)
        tails = i64(forest, TAILS)
        whole = variance_of_targets(forest)
        scale = 0.0 if pools else scale_of(forest, tree)
        out += 8 * width * t
        # Of the parent: posterior mean and variance, and its row.
        mean, variance = centre, 0.0
        parent = np.int64(0)
        depth = i64(lane, DEPTH)
        for i in range(1, depth + 1):
            entry = lane + ENTRY_BYTES * i
            ref = i64(entry, REF)
            ends = is_leaf(forest, tree, ref)
            node = np.int64(0) if ends else node_at(forest, tree, ref)
            rise = 0.0
            if not pools:
                if ends:
                    rise = rise_to_end(forest, tree, parent)
                else:
                    rise = rise_to(forest, tree, parent, node)
            share, mean_here, variance_here = posterior_below(
                forest, tree, parent, ref, rise, mean, variance
            )
            # What the two means have in common.
            common = share * variance
            eta = f64(entry, ETA)
            if eta > 0.0:
                weight = f64(entry, REACH) * (1.0 - f64(entry, STAYS))
                if pools:
                    add(out, weight, mean_here, 0.0, centre, tails, whole)
                elif weight > NOTHING:
                    time = f64(time_at(parent), 0) if parent != 0 else 0.0
                    reached = lifetime if ends else f64(time_at(node), 0)
                    decay = math.exp(-gamma2 * time)
                    r, r2 = moments_of_branch(eta, reached - time, gamma2, decay)
                    gap = mean_here - mean
                    # A bridge between the two means, and the new leaf's own way from there.
                    free = (1.0 - 2.0 * r + r2) * variance + r2 * variance_here
                    free += 2.0 * (r - r2) * common + (r - r2) * rise
                    free += rise_to_end(forest, tree, parent) - r * rise + noise
                    spread = scale * free + (r2 - r * r) * gap * gap
                    add(out, weight, mean + r * gap, spread, centre, tails, whole)
            mean, variance = mean_here, variance_here
            parent = node
        spread = scale * (variance + noise)
        add(out, f64(lane, REACH), mean, spread, centre, tails, whole)

    compiled: Callable[[int, int, int, int], None] = collect
    return compiled


@inlined
def add_moments(
    out: int, weight: float, mean: float, variance: float, centre: float, tails: int, whole: float
) -> None:
    """Add a component to the first two moments about the centre."""
    gap = mean - centre
    if tails != 0:
        variance = variance_over_scales(tails, variance, whole)
    put_f64(out, 0, f64(out, 0) + weight * gap)
    put_f64(out, 1, f64(out, 1) + weight * (variance + gap * gap))


@inlined
def append(out: int, weight: float, mean: float, variance: float) -> None:
    """Append a component: `out` is how many there are, how many fit, and their three numbers."""
    n = np.int64(f64(out, 0))
    if n < f64(out, 1) and weight > 0.0:
        put_f64(out, 3 * n + 2, weight)
        put_f64(out, 3 * n + 3, mean)
        put_f64(out, 3 * n + 4, variance)
    if weight > 0.0:
        put_f64(out, 0, n + 1)


@inlined
def add_component(
    out: int, weight: float, mean: float, variance: float, centre: float, tails: int, whole: float
) -> None:
    """Append a component, at each scale where there are several."""
    if tails == 0 or not (variance > 0.0 and whole > 0.0):
        append(out, weight, mean, variance)
        return
    precision = whole / variance
    for j in range(N_SCALES):
        at_scale = whole / precision_at(precision, SCALES[j])
        append(out, weight * f64(tails, j), mean, at_scale)


_collect_moments = collector(add_moments)
_collect_components = collector(add_component)
_collect_densities = collector(add_density, DENSITIES_WIDTH)


# Numba does not cache what is made in a function, but what is here.
@called
def collect_moments(forest: int, t: int, lane: int, out: int) -> int:
    """Add a walk's prediction to the sums of the first two moments; returns 0."""
    _collect_moments(forest, t, lane, out)
    return 0


@called
def collect_components(forest: int, t: int, lane: int, out: int) -> int:
    """Append a walk's components; returns 0."""
    _collect_components(forest, t, lane, out)
    return 0


@called
def collect_densities(forest: int, t: int, lane: int, out: int) -> int:
    """Add to how dense a tree makes a target; returns 0."""
    _collect_densities(forest, t, lane, out)
    return 0


@kernel
def predict(forest: int, values: int, rows: int, n: int, out: int) -> int:
    """Predict mean and variance for `n` scaled rows into `out`, shape (n, 2).

    If there are `values`, they are scaled into the only row first. Returns -1, or the dimension
    whose value is too large.
    """
    if values != 0:
        bad: int = scale_into(forest, rows, values)
        if bad >= 0:
            return bad
    n_trees = i64(forest, N_TREES)
    centre = f64(forest, Y_MEAN)
    for k in range(2 * n):
        put_f64(out, k, 0.0)
    call6(i64(forest, PREDICT_ROWS), forest, rows, n, out, np.int64(2), i64(forest, COLLECT))
    for r in range(n):
        first = f64(out, 2 * r) / n_trees
        second = f64(out, 2 * r + 1) / n_trees
        put_f64(out, 2 * r, centre + first)
        put_f64(out, 2 * r + 1, max(second - first * first, 0.0))
    return -1


@kernel
def mixture(forest: int, values: int, row: int, out: int, collect: int) -> int:
    """Predict the components of the mixture for one row; returns as `predict` does.

    Weights add up to the number of trees. `collect` is the address of `collect_components`.
    """
    bad = scale_into(forest, row, values)
    if bad < 0:
        put_f64(out, 0, 0.0)
        call6(i64(forest, PREDICT_ROWS), forest, row, np.int64(1), out, np.int64(0), collect)
    return bad


# Learning.


def find_densities(forest: int, point: int, out: int) -> int:
    """Write how dense each tree makes a stored point's target at each scale, shape (trees, width).

    The first is NaN where that tells nothing: before two targets differ, or without a weight.
    Called by address.
    """
    y, weight = f64(target_at(forest, point), 0), f64(target_at(forest, point), 1)
    if not (weight > 0.0 and variance_of_targets(forest) > 0.0):
        put_f64(out, TARGET, math.nan)
        return 0
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        place = out + 8 * DENSITIES_WIDTH * t
        put_f64(place, TARGET, y)
        put_f64(place, EXTRA, scale_of(forest, tree) * f64(tree, NOISE) * (1.0 / weight - 1.0))
        for j in range(N_SCALES):
            put_f64(place, DENSITIES + j, 0.0)
    row, collect = point_at(forest, point), i64(forest, COLLECT_DENSITIES)
    call6(i64(forest, PREDICT_ROWS), forest, row, np.int64(1), out, np.int64(0), collect)
    return 0


@kernel
def learn_one(forest: int, values: int, y: float, weight: float, point: int, n: int) -> int:
    """Store one sample, after `n` others, as `point` and extend every tree by it.

    Returns as `mondrian.learn` does. Messages are up to date if that is -1.
    """
    bad = store_values(forest, values, point)
    if bad >= 0:
        return -2 - bad
    put_target(forest, y, weight, point)
    if i64(forest, TAILS) != 0 and tells(n):
        told = i64(forest, TOLD)
        call3(i64(forest, FIND_DENSITIES), forest, point, told)
        call3(i64(forest, LEARN_SCALES), i64(forest, TAILS), told, i64(forest, N_TREES))
    set_walks(forest, point, point + 1)
    # Plain numbers would be types of their own, and a second compilation.
    first, last = np.int64(0), i64(forest, N_TREES)
    said: int = call4(i64(forest, EXTEND), forest, first, last, np.int64(LANES))
    if said == -1:
        settle(forest, first, last)
    add_to_prior(forest, y, weight)
    return said


@kernel
def put_targets(forest: int, targets: int, weights: int, n: int, first: int) -> None:
    """Write the targets and weights of the points `first`, `first + 1`, ..."""
    for i in range(n):
        put_target(forest, f64(targets, i), f64(weights, i), first + i)


@kernel
def add_targets(forest: int, first: int, last: int) -> None:
    """Add the targets of points `first` to `last` to the running mean and sum of squares."""
    for p in range(first, last):
        add_to_prior(forest, f64(target_at(forest, p), 0), f64(target_at(forest, p), 1))


@kernel
def extend_telling(
    forest: int,
    first: int,
    last: int,
    lanes: int,
    start: int,
    end: int,
    n: int,
    done: int,
    out: int,
) -> int:
    """Extend trees `first` to `last` by points `start` to `end`, before which `n` were learned.

    Before a tree learns a target that tells, its densities of it are written to `out`, shape
    (targets, trees, width). `done`, shape (trees,), holds the first point whose densities are
    still to be written: `start` at first. Returns as `extend` does.
    """
    # A forest of one tree, as it was before a point: the running moments are of those before.
    before: int = room_of_forest()
    n_trees = i64(forest, N_TREES)
    for group in range(first, last, lanes):
        stop = min(group + lanes, last)
        for k in range(FOREST_WIDTH):
            put_i64(before, k, i64(forest, k))
        put_i64(before, N_TREES, 1)
        place, p, added = out, start, start
        while True:
            while p < end and not tells(n + p - start):
                p += 1
            if p >= i64(done, group):
                for t in range(group, stop):
                    put_i64(tree_at(forest, t), WALK_END, p)
                said: int = call4(i64(forest, EXTEND), forest, group, stop, lanes)
                if said >= 0:
                    return said
            if p == end:
                break
            if p >= i64(done, group):
                settle(forest, group, stop)
                add_targets(before, added, p)
                added = p
                for t in range(group, stop):
                    put_i64(before, TREES, tree_at(forest, t))
                    own = place + 8 * DENSITIES_WIDTH * t
                    call3(i64(forest, FIND_DENSITIES), before, p, own)
                    put_i64(tree_at(forest, t), WALK_REF, START)
                put_i64(done, group, p + 1)
            place += 8 * DENSITIES_WIDTH * n_trees
            p += 1
    return -1


@kernel
def learn_tails(forest: int, start: int, end: int, n: int, out: int) -> None:
    """Let the law of targets learn what `extend_telling` has written."""
    for p in range(start, end):
        if tells(n + p - start):
            call3(i64(forest, LEARN_SCALES), i64(forest, TAILS), out, i64(forest, N_TREES))
            out += 8 * DENSITIES_WIDTH * i64(forest, N_TREES)
