"""Mondrian partitions of the whole space around samples or an origin, and mixtures of densities."""

import math

import numpy as np

from .density import PLACE, TIME, derived, uniform

NEXT_BLOCK, NEXT, SIDES = 0, 7, 8


class Region:
    """A region with a pivot: the first sample, or a point determined by an origin."""

    def __init__(self, key, time, pivot, samples):
        self.key, self.time, self.pivot = key, time, pivot
        self.samples, self.parts = samples, {}


def beyond(region, cut, rates):
    """Return the region beyond a cut; its pivot is the projection of the old pivot on the cut."""
    time, place, key, side = cut
    j, upper = divmod(side, 2)
    pivot = list(region.pivot)
    pivot[j] += (place if upper else -place) / rates[j]
    return Region(key, time, pivot, [])


def cuts_of(key, side, began, block, until, nearer):
    """Return the time, distance and key of the cuts on a side before `until`, up to a distance.

    Distances are divided into the blocks [0, block), [block, 2 block), [2 block, 4 block), ... In
    each block, only cuts nearer to the pivot than all earlier cuts count.
    """
    found = []
    block_key = derived(key, SIDES + side)
    lower, end = 0.0, block
    while True:
        own, top, time = block_key, end, began
        while True:
            time -= math.log(uniform(own, TIME)) / (top - lower)
            if time >= until:
                break
            top = lower + uniform(own, PLACE) * (top - lower)
            found.append((time, top, own))
            if until == math.inf and top < nearer:
                break
            own = derived(own, NEXT)
        if end >= nearer:
            return found
        lower, end = end, 2.0 * end
        block_key = derived(block_key, NEXT_BLOCK)


def block_of(horizon, began):
    if began > 0.0:
        return 0.2 / began
    return 1.0 / horizon if horizon < math.inf else 1.0


def first_cut(region, horizon, until, rates, z):
    """Return the time, distance, key and side of the first cut between pivot and point, or None."""
    found = []
    for j, (value, pivot) in enumerate(zip(z, region.pivot, strict=True)):
        if value == pivot:
            continue
        gap = abs(value - pivot) * rates[j] if rates[j] > 0.0 else 1.0
        side = 2 * j + (value > pivot)
        block = block_of(horizon, region.time)
        for time, place, key in cuts_of(region.key, side, region.time, block, until, gap):
            if place < gap:
                found.append((time, place, key, side))
    return min(found, default=None)


def learn(root, key, horizon, rates, z, origin=None):
    """Add a sample to a tree; return its root."""
    if root is None and origin is None:
        return Region(key, 0.0, z, [z])
    region = root = root or Region(key, 0.0, origin, [])
    while True:
        cut = first_cut(region, horizon, horizon, rates, z)
        region.samples.append(z)
        if cut is None:
            return root
        time, _, own, _ = cut
        if own not in region.parts:
            if origin is None:
                region.parts[own] = Region(own, time, z, [z])
                return root
            region.parts[own] = beyond(region, cut, rates)
        region = region.parts[own]


def parted_at(root, horizon, rates, z):
    """Return the time at which a tree separates a point from all samples, or infinity."""
    region, parted = root, 0.0
    while True:
        cut = first_cut(region, horizon, horizon, rates, z)
        end, left = math.inf if cut is None else cut[0], len(region.samples)
        for part in sorted(region.parts.values(), key=lambda part: part.time):
            if part.time < end:
                left -= len(part.samples)
                parted = part.time if left == 0 else parted
        parted = end if left > 0 else parted
        if cut is None or cut[2] not in region.parts:
            return parted
        region = region.parts[cut[2]]


def cell_of(root, horizon, lifetime, rates, z, from_origin=False):
    """Return a point's cell at a lifetime: the lower and upper ends, and the samples."""
    cell = [[-math.inf, math.inf] for _ in z]
    region = root
    while True:
        cut = first_cut(region, horizon, lifetime, rates, z)
        until = lifetime if cut is None else cut[0]
        block = block_of(horizon, region.time)
        for j, value in enumerate(region.pivot):
            for upper in (0, 1):
                bound = abs(cell[j][upper] - value) * rates[j]
                # The nearest cut is farther with a probability of exp(-60), so farther cuts are
                # ignored.
                far = min(bound, 60.0 / (until - region.time))
                known = cuts_of(region.key, 2 * j + upper, region.time, block, until, far)
                reach = min((place for _, place, _ in known), default=math.inf)
                if reach < bound:
                    cell[j][upper] = value + (reach if upper else -reach) / rates[j]
        gone = {id(z) for p in region.parts.values() if p.time < until for z in p.samples}
        inside = [z for z in region.samples if id(z) not in gone]
        if cut is None:
            return cell, inside
        _, place, own, side = cut
        j, upper = divmod(side, 2)
        cell[j][1 - upper] = region.pivot[j] + (place if upper else -place) / rates[j]
        if own not in region.parts and from_origin:
            region = beyond(region, cut, rates)
            continue
        if own not in region.parts:
            # The point starts a new region. The point's cell is the intersection of the cell so far
            # with the cell of the new region.
            alone = Region(own, cut[0], z, [])
            ends, _ = cell_of(alone, horizon, lifetime, rates, z)
            found = [[max(a, c), min(b, d)] for (a, b), (c, d) in zip(cell, ends, strict=True)]
            return found, []
        region = region.parts[own]


def rarity(surprises, medians, spreads, parts):
    """Return the largest deviation, over the levels, of a surprise from its median, in spreads."""
    used = (parts >= 2.0**-8) & (parts <= 2.0**-2)
    # The finest level always counts.
    used[np.flatnonzero(parts >= 2.0**-8).max()] = True
    return ((surprises - medians) / np.maximum(spreads, 1e-3))[used].max()


def mixture(counts, lifetimes, parted, n, d, log_weights):
    """Return the densities of the levels (lifetimes), and the density of their mixture.

    `counts` has the count of the point's cell at each level in each tree. `parted` has the time at
    which each tree separates the point from all samples.
    """
    before = np.mean((np.minimum(parted, lifetimes[0]) / 2.0) ** d)
    levels = []
    for row, lifetime in zip(counts, lifetimes, strict=True):
        before = (np.mean(row) * (lifetime / 2.0) ** d + before) / (n + 1)
        levels.append(before)
    return levels, np.average(levels, weights=np.exp(log_weights))
