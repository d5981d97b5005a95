"""Readers of mappings and frames for the kernels of feature maps."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .checks import check_arrays, refuse
from .inputs import FeatureIndex, Floats, as_dict, check_names, check_value, ordered, too_large
from .limits import LARGEST, LEAST_ORIGIN, MANY_FEATURES
from .maps.record import Sample
from .records import Float64s, Int32s, Ints, Memory, Singles
from .values import are_numbers


class _Entries(NamedTuple):
    """Buffer for the entries of a sparse sample, replaced by a larger buffer if necessary."""

    indices: NDArray[np.int32]
    values: Floats
    sample: Sample

    @classmethod
    def of(cls, n: int) -> _Entries:
        """Return a buffer for `n` entries."""
        buffer = cls(np.empty(n, dtype=np.int32), np.empty(n), Memory(Sample)[0])
        buffer.sample.indices = Int32s.of(buffer.indices)
        buffer.sample.entries = Float64s.of(buffer.values)
        return buffer


class SampleReader:
    """Reader of mappings and frames for the kernels of a feature map (see `maps.record`).

    Parameters
    ----------
    shifts
        Whether the map depends only on differences of values. If so, a first value that is far from
        0 becomes the feature's origin, unless there are `MANY_FEATURES` or more features. The
        origin is subtracted before values are rounded. An absent value counts as the origin.

    """

    _IN_SNAPSHOT = ("vector", "whole", "_entries", "origins", "_is_shifted", "index")

    def __init__(self, shifts: bool = False) -> None:
        self._use(FeatureIndex(), np.zeros(0) if shifts else None)

    def _use(self, index: FeatureIndex, origins: Floats | None) -> None:
        """Set the known features with their origins and buffers."""
        # The attribute is None if values are not shifted.
        self.origins: Any = origins
        self._is_shifted = origins is not None and bool(origins.any())
        self.vector = np.full(max(1, len(index)), np.nan)
        # The sample whose values are `vector`.
        self.whole = Memory(Sample)[0]
        self.whole.values = Float64s.of(self.vector)
        self._entries = _Entries.of(16)
        # The index is set last, so that after an interruption the buffers still have room for its
        # features.
        self.index = index

    def __getstate__(self) -> tuple[FeatureIndex, Floats | None]:
        # The state is never empty, because older pickle protocols omit empty states.
        return self.index, self.origins

    def __setstate__(self, state: tuple[FeatureIndex, Floats | None]) -> None:
        index, self.origins = state
        if not isinstance(index, FeatureIndex):
            refuse(self, "index", index, "but it should be a FeatureIndex")
        if self.origins is not None:
            check_arrays(self, {"origins": (np.float64, (len(index),), -LARGEST, LARGEST)})
        self._use(index, self.origins)

    def _add(self, first: Mapping[Hashable, float]) -> None:
        """Add new features with their first values, in the order of the mapping."""
        index, origins = self.index.with_more(first), self.origins
        if origins is not None:
            values = np.array([*first.values()])
            # Many features are usually words, which have no origin, because an absent word counts
            # as 0.
            is_far = (np.abs(values) >= LEAST_ORIGIN) & (len(index) < MANY_FEATURES)
            origins = np.append(origins, np.where(is_far, values, 0.0))
        self._use(index, origins)

    def add(self, values: Mapping[Hashable, float]) -> None:
        """Add the new features of a checked sample, in the order of their names."""
        new = self.index.new_of(values)
        if new:
            self._add(new)

    def knows(self, x: Mapping[Any, Any]) -> bool:
        """Return whether all keys of a mapping are known features."""
        return as_dict(x).keys() <= self.index.index_of.keys()

    def read(self, x: Mapping[Any, Any], levels: bool = False) -> Sample:
        """Return a mapping as a vector, with NaN for absent features. Levels need `levels=True`."""
        if self.index.read_known(x, self.vector):
            if self._is_shifted:
                self.vector -= self.origins
            return self.whole
        x = as_dict(x)
        if levels and (self.index.categories or any(isinstance(v, str) for v in x.values())):
            self.index.write(self.index.read(x, levels), self.vector)
            return self.whole
        self.read_sparse(x)
        indices, values = self._entries.indices[: len(x)], self._entries.values[: len(x)]
        known = indices >= 0
        self.vector.fill(np.nan)
        self.vector[indices[known]] = values[known]
        return self.whole

    def read_sparse(
        self, x: Mapping[Any, Any], index_of: Mapping[Hashable, int] | None = None
    ) -> Sample:
        """Return a mapping's values and their indices in a vector, in the order of the keys.

        By default, `index_of` maps features to their indices.
        """
        x = as_dict(x)
        n = len(x)
        buffer = self._entries
        if n > len(buffer.indices):
            buffer = self._entries = _Entries.of(2 * n)
        try:
            struct.Struct(f"{n}d").pack_into(buffer.values.data, 0, *x.values())
            is_read = are_numbers(x.values())
        except (ArithmeticError, TypeError, struct.error):
            is_read = False
        if not is_read:
            buffer.values[:n] = [check_value(name, value) for name, value in x.items()]
        find = (self.index.index_of if index_of is None else index_of).get
        indices = list(map(find, x, itertools.repeat(-1)))
        if -1 in indices:
            check_names(x)
        buffer.indices[:n] = indices
        if self._is_shifted:
            self._shift(buffer.indices[:n], buffer.values[:n])
        buffer.sample.n_entries = n
        return buffer.sample

    def _shift(self, indices: NDArray[np.int32], values: Floats) -> None:
        """Subtract origins from the values of features; unknown features have the index -1."""
        known = (indices >= 0) & (indices < len(self.origins))
        values[known] -= self.origins[indices[known]]

    def read_text(self, x: Mapping[Any, Any], words: dict[Hashable, int], adds: bool) -> Sample:
        """Return a text's entries, sorted by the indices of the words in the vocabulary `words`.

        If `adds` is true, unknown words with values get the next indices in the vocabulary, in the
        order of their names. After an interruption, the vocabulary may contain words that are in no
        learned sample.
        """
        x = as_dict(x)
        sample = self.read_sparse(x, words)
        buffer, n = self._entries, len(x)
        indices, values = buffer.indices[:n], buffer.values[:n]
        unknown = indices < 0
        # Unknown words are checked, too, because their values count towards the norm of the text.
        bad = np.abs(values) > LARGEST
        if bad.any():
            raise too_large(*list(x.items())[int(bad.argmax())])
        if adds and unknown.any():
            there = (unknown & ~np.isnan(values)).tolist()
            for name in ordered(itertools.compress(x, there)):
                words[name] = len(words)
            indices[:] = list(map(words.get, x, itertools.repeat(-1)))
        self._sort_entries(n)
        if n and indices[0] < 0:
            # Unknown words have no indices, so they are sorted by value, which makes sums
            # independent of the order of keys.
            values[: np.searchsorted(indices, 0)].sort()
        return sample

    def read_ordered(self, x: Mapping[Any, Any]) -> Sample:
        """Return a mapping's entries, sorted by index.

        Sums over sorted entries do not depend on the order of the keys.
        """
        sample = self.read_sparse(x)
        self._sort_entries(len(x))
        return sample

    def _sort_entries(self, n: int) -> None:
        """Sort the first `n` entries by index."""
        indices, values = self._entries.indices[:n], self._entries.values[:n]
        if (indices[1:] < indices[:-1]).any():
            order = np.argsort(indices, kind="stable")
            indices[:], values[:] = indices[order], values[order]

    def entries(self, values: Mapping[Hashable, float]) -> tuple[NDArray[np.int32], Singles]:
        """Return the indices and values of a checked sample's non-zero entries, sorted by index.

        Unknown features are omitted.
        """
        known = self.index.index_of
        pairs = sorted((known[name], value) for name, value in values.items() if name in known)
        indices = np.array([index for index, _ in pairs], dtype=np.int32)
        numbers = np.array([value for _, value in pairs], dtype=np.float64)
        if self._is_shifted:
            self._shift(indices, numbers)
        nonzero = numbers != 0.0
        # Numbers too small for single precision become 0, without a warning.
        with np.errstate(under="ignore"):
            return indices[nonzero], numbers[nonzero].astype(np.float32)

    def add_columns(self, names: Sequence[Hashable], columns: Floats) -> None:
        """Add a frame's new features, in the same order as `add` for each row."""
        new = self.index.first_values(names, columns)
        if new:
            self._add(new)

    def arrange(self, names: Sequence[Hashable], columns: Floats) -> Floats:
        """Return a frame's columns in the order of the features, with NaN for absent features."""
        rows = self.index.arrange(names, columns, len(self.vector))
        if self._is_shifted:
            rows -= self.origins
        return rows

    def csr(
        self, names: Sequence[Hashable], columns: Floats
    ) -> tuple[NDArray[np.int32], Floats, Ints]:
        """Return the indices, values and row starts of a frame's known, non-zero entries."""
        indices = np.array([self.index.index_of.get(name, -1) for name in names], dtype=np.int32)
        order = np.argsort(indices, kind="stable")
        order = order[indices[order] >= 0]
        there = columns[:, order]
        if self._is_shifted:
            there = there - self.origins[indices[order]]
        is_entry = (there != 0.0) & ~np.isnan(there)
        starts = np.zeros(len(columns) + 1, dtype=np.int64)
        np.cumsum(is_entry.sum(axis=1), out=starts[1:])
        rows, numbers = np.nonzero(is_entry)
        return indices[order][numbers], there[rows, numbers], starts

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        buffer = self._entries
        size = 0 if self.origins is None else self.origins.nbytes
        size += self.vector.nbytes + buffer.indices.nbytes + buffer.values.nbytes + 2 * Sample.SIZE
        return self.index.nbytes + size
