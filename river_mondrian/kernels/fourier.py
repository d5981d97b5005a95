"""Random Fourier features: cosine and sine of random projections."""

from __future__ import annotations

import math

from .maps import ENTRIES, N_OUT, OWN, bad_entry, entry
from .memory import f64, i64, put_f64

# Words of the record: the address of each feature's frequencies, a row of n_out / 2 float64, and
# the factor of the outputs.
FREQUENCIES = OWN
FACTOR = OWN + 1
N_WORDS = 2


def fourier(record: int, x: int, out: int) -> int:
    """Map a sample to the cosines and then the sines of its phases."""
    bad = bad_entry(record, x)
    if bad >= 0:
        return bad
    m = i64(record, N_OUT) // 2
    for k in range(m):
        put_f64(out, k, 0.0)
    for j in range(i64(x, ENTRIES)):
        place, value = entry(record, x, j)
        if value == 0.0:
            continue
        row = i64(record, FREQUENCIES) + 8 * m * place
        for k in range(m):
            put_f64(out, k, f64(out, k) + value * f64(row, k))
    factor = f64(record, FACTOR)
    for k in range(m):
        phase = f64(out, k)
        put_f64(out, k, factor * math.cos(phase))
        put_f64(out, m + k, factor * math.sin(phase))
    return -1
