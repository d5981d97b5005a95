"""Random Fourier features, random binning and Nystrom features, written from their papers."""

import math


def number(value):
    return 0.0 if value is None or math.isnan(value) else value


def fourier(x, frequencies):
    """Map a sample; `frequencies` has a list for each feature (Rahimi and Recht, Algorithm 1)."""
    m = len(next(iter(frequencies.values())))
    phases = [
        math.fsum(number(x.get(name)) * row[k] for name, row in frequencies.items())
        for k in range(m)
    ]
    factor = 1.0 / math.sqrt(m)
    return [factor * math.cos(p) for p in phases] + [factor * math.sin(p) for p in phases]


def bins(x, grids):
    """Return the cell in one partition; `grids` has (pitch, shift) for each feature (Algorithm 2).

    Bins of features that are 0 are left out: those are number 0, whatever the features known.
    """
    found = set()
    for name, (pitch, shift) in grids.items():
        place = math.floor((number(x.get(name)) + shift) / pitch)
        if place != 0:
            found.add((name, place))
    return frozenset(found)


class Binning:
    """Cells in the order in which they are met; `grids` has a mapping for each partition."""

    def __init__(self, grids):
        self.grids = grids
        self.cells = {}

    def learn(self, x):
        for partition, grids in enumerate(self.grids):
            self.cells.setdefault((partition, bins(x, grids)), len(self.cells))

    def cells_of(self, x):
        return [
            self.cells.get((partition, bins(x, grids)), -1)
            for partition, grids in enumerate(self.grids)
        ]

    def kernel(self, x, y):
        return sum(bins(x, g) == bins(y, g) for g in self.grids) / len(self.grids)


def nystrom_kernel(x, y, landmarks, kernel, rank, solve):
    """Return k(x)' K_r^+ k(y), K_r the best approximation of the landmarks' kernels of a rank.

    `solve` returns a matrix's eigenvalues and eigenvectors, each a row, in descending order.
    """
    gram = [[kernel(a, b) for b in landmarks] for a in landmarks]
    values, vectors = solve(gram)
    first, second = ([kernel(a, z) for a in landmarks] for z in (x, y))
    total = 0.0
    for value, vector in list(zip(values, vectors, strict=True))[:rank]:
        left = math.fsum(a * b for a, b in zip(first, vector, strict=True))
        right = math.fsum(a * b for a, b in zip(second, vector, strict=True))
        total += left * right / value
    return total
