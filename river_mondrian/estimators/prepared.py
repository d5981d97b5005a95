"""Calls on one sample, prepared for features and labels as they are."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from typing import Any

from ..inputs import FeatureIndex, Packer, read_values, too_large
from ..partitions.mondrian.trees import ClassTrees


class Prepared(Packer):
    """What a call on one sample needs while features and labels stay what they are.

    Nothing of it is written to, so that any number of threads may use it. A kernel that is called
    when the trees have another version refuses.

    Parameters
    ----------
    trees
        The trees.
    features, labels
        The features, and the number of each label.

    """

    __slots__ = (
        "features",
        "labels",
        "n_bytes",
        "names",
        "predict",
        "takes_levels",
        "trees",
        "unpack",
        "version",
    )

    def __init__(
        self, trees: ClassTrees[Any, Any], features: FeatureIndex, labels: dict[Hashable, int]
    ) -> None:
        super().__init__(features)
        self.trees: Any = trees
        self.takes_levels = trees.directions is None
        self.version = trees.version
        self.features = features
        self.labels, self.names = labels, list(labels)
        self.predict = trees.predictor()
        numbers = struct.Struct(f"{len(labels)}d")
        self.n_bytes, self.unpack = numbers.size, numbers.unpack

    def pack_known(self, x: Mapping[Any, Any]) -> bytes | None:
        """Pack a mapping; None where it has features that are not known."""
        values = read_values(x, self.takes_levels)
        return self.pack_values(values) if self.knows(values) else None

    def too_large(self, place: int, inputs: bytes) -> ValueError:
        """Return the error for a packed value that is too large."""
        value = struct.unpack_from("d", inputs, 8 * place)[0]
        return too_large(self.features.names[place], value)
