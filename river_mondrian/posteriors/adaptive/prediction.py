"""Class predictions of adaptive forests: three posteriors of each tree, then the mixture.

The first posterior is the HNSP, which integrates over the points where the sample may branch off.
`labels.hnsp` derives the weights of the HNSP (Lakshminarayanan, Roy and Teh 2014, Algorithm 8,
lines 6 to 12). The other posteriors average over the nodes of the path by context-tree weighting
(`weighting`). All posteriors are weighted sums of the class statistics on the path. One pass down
the path computes the weights. One pass up the path adds the weighted statistics.

With few classes, each posterior has a row of `class_capacity` sums. With many classes, each class
has a row with one sum per posterior. These rows follow `N_FRONT` other rows. The first other row
has the terms that all classes share. So a node adds one term per weighting for all unseen classes.
The cost of a node depends on the number of classes that the node has seen, not on the number of all
classes.
"""

import math

import numpy as np

from ...compiling.kernels import always_inline, batch_kernel, inline_in_source, kernel, link_by_name
from ...learners import discriminants, experts, neighbors
from ...limits import DONE, TOO_LARGE, WAITS
from ...partitions.mondrian.boxes import distance_outside, distance_to_point
from ...partitions.mondrian.scaling import scale
from ...records import Float32s, Float64s, Packed, array_buffer
from ...records.arrays import Writable
from ..labels.hnsp import branching, most_probable, point_terms
from ..rebuilt.forest import PATH_LENGTH, RECENT, ensure_predicted, note_predicted, walk_all
from . import nodes
from .nodes import A, AdaptiveTree, Entries, Factors, StatisticsEntry, Step
from .seen import list_seen, numbers_of
from .weighting import add_statistics

_buffer_of_factors = array_buffer(Factors, PATH_LENGTH)


# Factors of the HNSP up to this number are set to 0, since subnormal numbers make some processors
# 100 times slower. The omitted terms are far below the floor of experts (`learners.experts`).
LEAST_FACTOR = 1e-37
# With many classes, a node's weight in the HNSP is set to 0 below this number, since subnormal
# numbers make some processors slower.
NEGLIGIBLE = 1e-18


@always_inline
def _noticed(factor: float) -> float:
    """Return a factor, or 0 if its absolute value is at most `LEAST_FACTOR`."""
    return factor if abs(factor) > LEAST_FACTOR else 0.0


@always_inline
def _add(out: Float32s, k: int, weight: float) -> None:
    out[k] = out[k] + weight


@always_inline
def _place(forest: A, posterior: int, k: int) -> int:
    """Return the index of a posterior's sum for a class."""
    if forest.is_sparse == 1:
        return nodes.N_POSTERIORS * (nodes.N_FRONT + k) + posterior
    return forest.class_capacity * posterior + k


@always_inline
def _add_to_all(forest: A, posterior: int, weight: float, out: Float32s) -> None:
    """Add a weight to a posterior's sums for all classes."""
    if forest.is_sparse == 1:
        _add(out, posterior, weight)
        return
    start = _place(forest, posterior, 0)
    for k in range(start, start + forest.n_classes):
        _add(out, k, weight)


@inline_in_source
def _eta(forest: A, tree: AdaptiveTree, entry: StatisticsEntry, x: Float32s) -> float:
    """Return a sample's rate of branching off at a node: the distance to the node's box."""
    if entry.ref < 0:
        return distance_to_point(forest, tree, forest.points.cast(entry.row), x)
    node = tree.nodes.cast(entry.row)
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    return distance_outside(x, lower, upper, forest.n_dims)


@inline_in_source
def _walk_down(
    forest: A, tree: AdaptiveTree, x: Float32s, path: Entries, n: int, out: Float32s
) -> float:
    """Fill the steps of a sample's path, and return the probability of not branching off.

    The weightings' estimates at the end of the path are added to `out`.
    """
    gamma, n_classes, steps = forest.gamma, forest.n_classes, forest.posterior.steps
    of_noisy, of_mixed = nodes.PRIORS[nodes.NOISY], nodes.PRIORS[nodes.MIXED]
    reach = 1.0
    # Probability that no node above has stopped, in each weighting.
    noisy, mixed = 1.0, 1.0
    for i in range(n):
        entry, step = path[i], steps[i]
        ends = i == n - 1
        eta = _eta(forest, tree, entry, x)
        span = math.inf if ends else tree.nodes.cast(entry.row).delta
        stays = math.exp(-eta * span) if eta > 0.0 else 1.0
        step.eta = eta
        step.reach = reach
        step.stays = stays
        step.discount = 0.0 if ends else math.exp(-gamma * span)
        reach *= stays
        step.statistics = tree.side_rows.none()
        statistics = entry.statistics
        if statistics and statistics.n_seen > 0:
            step.statistics = statistics
            stops, shares, units = statistics.stops, statistics.shares, statistics.units
            # `stopped` is the node's weight in a weighting. The factors of the counts are
            # proportional to this weight.
            stopped = noisy if ends else noisy * stops[nodes.NOISY]
            step.noisy = stopped / (statistics.weight + of_noisy * n_classes)
            noisy -= stopped
            stopped = mixed if ends else mixed * stops[nodes.MIXED]
            step.of_all = stopped / (statistics.weight + of_mixed * n_classes) * shares[0]
            total = statistics.totals[nodes.LATE] + of_mixed * units[nodes.LATE] * n_classes
            step.of_late = stopped * shares[1] / total
            total = statistics.totals[nodes.LATEST] + of_mixed * units[nodes.LATEST] * n_classes
            step.of_latest = stopped * shares[2] / total
            mixed -= stopped
    # The estimate at the end of the path gets the remaining weight. The estimate uses the prior
    # and, if the path ends at a point, the point's class.
    last = path[n - 1].ref
    seen = forest.weight_of(~last) if last < 0 else 0.0
    for v, rest in enumerate((noisy, mixed)):
        each = rest / (seen + nodes.PRIORS[v] * n_classes)
        _add_to_all(forest, 1 + v, nodes.PRIORS[v] * each, out)
        if last < 0:
            _add(out, _place(forest, 1 + v, forest.label_of(~last)), seen * each)
    return reach


@link_by_name
def clear_below(forest: A, ref: int) -> int:
    """Set `below` to 0, except for the class of the point `ref`, which gets the point's weight."""
    below = forest.posterior.below
    for k in range(forest.n_classes):
        below[k] = 0.0
    if ref < 0:
        below[forest.label_of(~ref)] = forest.weight_of(~ref)
    return 0


@link_by_name
def count_tables(forest: A, tree: AdaptiveTree, step: Step, ends: bool) -> int:
    """Write a node's c, and the sums of c and tab (see `labels.hnsp`), in a forest with weights.

    For a class of weight W, tab is min(W, 1). At a leaf, c is W. At an internal node, c is the sum
    of both children's tab. The child on the path has a part of W, and the other child has the
    remaining weight.
    """
    statistics, node_c, below = step.statistics, forest.posterior.node_c, forest.posterior.below
    total, tables, labels = 0.0, 0.0, forest.seen.labels
    n = list_seen(forest, tree, statistics)
    for i in range(n):
        k = labels[i]
        count = np.float64(numbers_of(forest, tree, statistics, k).words[0])
        known = np.float64(below[k])
        c = count if ends else min(known, 1.0) + min(max(count - known, 0.0), 1.0)
        node_c[k] = c
        below[k] = count
        total += c
        tables += min(count, 1.0)
    step.sum_of_c = total
    step.sum_of_tables = tables
    return 0


@inline_in_source
def _add_step(
    forest: A,
    tree: AdaptiveTree,
    step: Step,
    factors: Factors,
    weight: float,
    of_tables: float,
    ends: bool,
    out: Float32s,
) -> None:
    """Add a node's terms to all posteriors.

    In the HNSP, `weight` is the factor of c, and `of_tables` is the factor of tab. With many
    classes, `add_seen` adds the terms of seen classes.
    """
    statistics = step.statistics
    units = statistics.units
    # At a leaf, c of a class is the number of samples of the class.
    is_weighted = forest.is_weighted == 1
    of_samples = _noticed(weight)
    by_weight, by_first, by_second = factors.by_weight, factors.by_first, factors.by_second
    for v in range(nodes.N_POSTERIORS):
        by_first[v] = 0.0
        by_second[v] = 0.0
    by_weight[0] = of_samples if ends and not is_weighted else 0.0
    by_second[0] = 0.0 if ends or is_weighted else of_samples
    by_first[0] = _noticed(of_tables)
    by_weight[1 + nodes.NOISY], by_weight[1 + nodes.MIXED] = step.noisy, step.of_all
    by_first[1 + nodes.MIXED], by_second[1 + nodes.MIXED] = step.of_late, step.of_latest
    prior = step.of_all + step.of_late * units[nodes.LATE] + step.of_latest * units[nodes.LATEST]
    constants = nodes.PRIORS[nodes.NOISY] * step.noisy, nodes.PRIORS[nodes.MIXED] * prior
    if forest.is_sparse == 1:
        factors.statistics = statistics
        for v, constant in enumerate(constants):
            _add_to_all(forest, 1 + v, constant, out)
    else:
        for v, constant in enumerate(constants):
            factors.constants[1 + v] = constant
        add_statistics(statistics, forest.n_classes, factors, out, forest.class_capacity)
    if is_weighted:
        # With weights, c is in `node_c` and not in the statistics, so the terms of c are added
        # here.
        node_c, labels = forest.posterior.node_c, forest.seen.labels
        for i in range(list_seen(forest, tree, statistics)):
            _add(out, _place(forest, 0, labels[i]), weight * node_c[labels[i]])


@link_by_name
def predict_tree(
    forest: A, tree: AdaptiveTree, x: Float32s, path: Entries, n: int, out: Float32s
) -> None:
    """Add a tree's posteriors for a scaled sample to sums in `out`.

    `path` is the sample's path of `n` nodes.
    """
    gamma, steps = forest.gamma, forest.posterior.steps
    if forest.is_weighted == 1 and forest.is_sparse == 1:
        # `count_tables` writes `below` only for seen classes, so all classes are cleared first.
        forest.clear_below(forest, path[n - 1].ref)
    noted, n_noted = _buffer_of_factors(), 0
    weight = _walk_down(forest, tree, x, path, n, out)
    for i in range(n - 1, -1, -1):
        step = steps[i]
        discount = step.discount
        at_node, passed = branching(step.eta, step.reach, step.stays, gamma, discount)
        statistics, ref = step.statistics, path[i].ref
        if statistics:
            ends = i == n - 1
            if forest.is_weighted == 1:
                forest.count_tables(forest, tree, step, ends)
            else:
                step.sum_of_c = statistics.weight if ends else float(statistics.n_sides)
                step.sum_of_tables = statistics.n_seen
            total, tables = step.sum_of_c, step.sum_of_tables
            of_tables = at_node / tables - weight * discount / total
            step_weight = weight / total
            if forest.is_sparse == 1 and weight + at_node < NEGLIGIBLE:
                step_weight = of_tables = 0.0
            _add_step(forest, tree, step, noted[n_noted], step_weight, of_tables, ends, out)
            n_noted += 1
            weight = weight * discount * tables / total + passed
            continue
        if forest.is_weighted == 1:
            forest.clear_below(forest, ref)
        if ref < 0:
            of_class, weight = point_terms(forest.weight_of(~ref), weight, at_node, discount)
            _add(out, _place(forest, 0, forest.label_of(~ref)), of_class)
            weight += passed
    if forest.is_sparse == 1:
        forest.add_seen(forest, tree, noted, n_noted, out)
    # The base distribution of the HNSP is uniform, so each class gets an equal part of the
    # remaining weight.
    _add_to_all(forest, 0, weight / forest.n_classes, out)


@link_by_name
def average_many(forest: A, of_long: float, of_recent: float) -> int:
    """Write the experts' predictions as `_add_trees` does, in a forest with many classes.

    `of_long` is the factor of sums over trees of all samples, and `of_recent` the factor of sums
    over recent trees.
    """
    n_sums, capacity, predicted = forest.n_sums(), forest.class_capacity, forest.experts.predicted
    sums = forest.posterior.sums.part(0, n_sums)
    of_late = forest.posterior.sums.part(n_sums, n_sums)
    for v in range(nodes.N_POSTERIORS):
        long = predicted.part(capacity * v, capacity)
        mean = predicted.part(capacity * (nodes.N_POSTERIORS + v), capacity)
        for k in range(forest.n_classes):
            start = nodes.N_POSTERIORS * (nodes.N_FRONT + k) + v
            long[k] = of_long * (sums[start] + sums[v])
            recent = of_recent * (of_late[start] + of_late[v])
            mean[k] = 0.5 * (long[k] + (long[k] if of_recent == 0.0 else recent))
    return 0


@inline_in_source
def _add_trees(forest: A) -> None:
    """Write the posteriors of the trees as predictions of the mixture's experts.

    The first experts are the means over trees of all samples. The next experts average these means
    with the means over recent trees, with equal weights. Without recent trees, the next experts
    equal the first experts.
    """
    sums, n_sums, predicted = forest.posterior.sums, forest.n_sums(), forest.experts.predicted
    for k in range(2 * n_sums):
        sums[k] = 0.0
    n_long, n_recent = 0, 0
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        n = tree.path_length
        if n > 0:
            is_recent = tree.role == RECENT
            out = sums.part(n_sums if is_recent else 0, n_sums)
            x = forest.row.part(tree.first_value, forest.dim_capacity)
            predict_tree(forest, tree, x, forest.path_of(t), n, out)
            n_recent += 1 if is_recent else 0
            n_long += 0 if is_recent else 1
    if forest.is_sparse == 1:
        of_long = 1.0 / n_long if n_long > 0 else 0.0
        forest.average_many(forest, of_long, 1.0 / n_recent if n_recent > 0 else 0.0)
        return
    for k in range(n_sums):
        long = sums[k] / n_long if n_long > 0 else 0.0
        predicted[k] = long
        recent = sums[n_sums + k] / n_recent if n_recent > 0 else long
        predicted[n_sums + k] = 0.5 * (long + recent)


@link_by_name
def predict_sample(forest: A, inputs: Float64s) -> int:
    """Predict a sample; return DONE, or the index of the first input that is too large."""
    bad = scale(forest, forest.row, inputs)
    if bad >= 0:
        return bad
    walk_all(forest)
    _add_trees(forest)
    discriminants.predict(forest.discriminants, inputs)
    rates = forest.discriminants.rates
    neighbors.predict(forest.neighbors, rates.part(1, forest.n_inputs), inputs)
    experts.combine(forest.experts)
    note_predicted(forest, inputs)
    return DONE


@kernel
def predict_one(forest: A, version: int, inputs: Packed, out: Writable) -> int:
    """Predict a sample, and write the probability of each class to `out`.

    Returns the most probable class, `TOO_LARGE - i` if the i-th input is too large, or WAITS if the
    trees' version is not `version`. The function does not write to the forest's `inputs`, since
    another thread may use this buffer.
    """
    if version != forest.version:
        return WAITS
    bad = ensure_predicted(forest, Float64s(inputs, 0, forest.n_inputs))
    if bad >= 0:
        return TOO_LARGE - bad
    mixed, n_classes = forest.experts.mixed, forest.n_classes
    probabilities = Float64s(out, 0, n_classes)
    for k in range(n_classes):
        probabilities[k] = mixed[k]
    return most_probable(mixed, n_classes)


@batch_kernel
def predict_rows(forest: A, rows: Float64s, n: int, out: Float64s) -> None:
    """Predict `n` rows of inputs, and write probabilities to `out`, shape (n, classes).

    The forest must have its own buffers (see `RebuiltTrees`), since other threads predict
    concurrently.
    """
    mixed, n_classes, capacity = forest.experts.mixed, forest.n_classes, forest.input_capacity
    for i in range(n):
        predict_sample(forest, rows.part(capacity * i, capacity))
        probabilities = out.part(n_classes * i, n_classes)
        for k in range(n_classes):
            probabilities[k] = mixed[k]
