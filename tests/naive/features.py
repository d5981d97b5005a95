"""Random Fourier features, random binning and Nystrom features, written from their papers."""

import math

import numpy as np


def number(value):
    return 0.0 if value is None or math.isnan(value) else value


def fourier(x, frequencies):
    """Map a sample (Rahimi and Recht, Algorithm 1), given a list of frequencies per feature."""
    phases = sum(number(x.get(name)) * np.array(row) for name, row in frequencies.items())
    return [*np.cos(phases), *np.sin(phases)] / np.sqrt(len(phases))


def bins(x, grids):
    """Return a sample's cell in a partition (Algorithm 2), given (pitch, shift) of each feature.

    Features in bin 0 are left out, so an unknown feature is in bin 0.
    """
    places = {k: math.floor((number(x.get(k)) + shift) / p) for k, (p, shift) in grids.items()}
    return frozenset((name, place) for name, place in places.items() if place != 0)


class Binning:
    """Random binning, with cells of all partitions numbered in order of appearance."""

    def __init__(self, grids):
        self.grids = grids
        self.cells = {}

    def learn(self, x):
        for partition, grids in enumerate(self.grids):
            self.cells.setdefault((partition, bins(x, grids)), len(self.cells))

    def cells_of(self, x):
        return [self.cells.get((m, bins(x, grids)), -1) for m, grids in enumerate(self.grids)]

    def kernel(self, x, y):
        return sum(bins(x, g) == bins(y, g) for g in self.grids) / len(self.grids)


def nystrom_kernel(x, y, landmarks, kernel, rank, solve):
    """Return k(x)' K_r^+ k(y), with K_r the best rank-r approximation of the landmarks' kernel.

    `solve` returns the eigenvalues of a matrix in descending order, and eigenvectors as rows.
    """
    gram = [[kernel(a, b) for b in landmarks] for a in landmarks]
    values, vectors = (np.array(found)[:rank] for found in solve(gram))
    first, second = (vectors @ [kernel(a, z) for a in landmarks] for z in (x, y))
    return (first * second / values).sum()
