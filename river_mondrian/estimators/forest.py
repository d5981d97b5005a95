"""The base class of the Mondrian forests."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
from river import base

from ..arguments import Missing, check_index, check_missing, check_ranges
from ..checks import ModelFormatError, check_number, refuse
from ..frames import Frame, read_frame, read_targets
from ..inputs import FeatureIndex, Floats, check_target, gap_of, warn_of_words
from ..model import locked
from ..partitions.mondrian import reading, tree_store
from ..progress import in_pieces
from .inspection import InspectableForest


class MondrianForest(InspectableForest, base.Estimator):
    """Base class of the Mondrian forests.

    A subclass is a dataclass whose fields are its parameters.
    """

    n_estimators: int
    scale: bool
    missing: Missing
    n_jobs: int
    seed: int | None
    ranges: Mapping[Any, tuple[float, float]] | None
    rescale: bool
    # The class's own `learn_one`. A user's override must not learn rows of frames, because the rows
    # contain codes instead of levels.
    _learn_row: Callable[..., None]

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"n_jobs"} & set(self._arguments())

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ranges(self.ranges, self.scale)
        self._features = FeatureIndex(self.missing)
        self._trees: Any = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._check_trees()
        trees, features = self._trees, self._features
        n, categories = (0, []) if trees is None else (trees.n_inputs, trees.category_indices)
        if n != len(features) or categories != features.category_indices:
            theirs = f"the trees have {n} features and categories at {categories}"
            ours = f"{len(features)} and {features.category_indices}"
            raise ModelFormatError(f"{theirs}, but {ours} are named")

    def _check_trees(self) -> None:
        """Raise an error if stored trees contradict the arguments."""
        trees = self._trees
        if trees is None:
            return
        fresh: Any = self._made_anew()._make_trees()
        if type(trees) is not type(fresh):
            refuse(self, "_trees", type(trees).__name__, f"but {type(fresh).__name__} are made")
        # The new trees have no samples, so attributes that depend on samples are not compared.
        rest = trees._DERIVED | {"categories"}
        for name, value in fresh.__dict__.items():
            if name in rest or not isinstance(value, (bool, type(None))):
                continue
            if trees.__dict__[name] is not value:
                refuse(trees, name, trees.__dict__[name], f"but the arguments make it {value!r}")
        check_number(self, "n_trees", len(trees.trees), len(fresh.trees), len(fresh.trees))
        if math.isnan(trees.forest.absent) is not math.isnan(fresh.forest.absent):
            refuse(trees, "absent", trees.forest.absent, f"but missing is {self.missing!r}")
        ends = fresh.forest.max_splits
        check_number(self, "max_splits", trees.forest.max_splits, ends, ends)

    def _partitions(
        self, n_trees: int, lifetime: Any = math.inf, **rest: Any
    ) -> tree_store.Partitions:
        """Return the arguments that all trees of the forest have in common."""
        rest = {"ranges": self.ranges or {}} | rest
        rest |= {"scale": self.scale, "rescale": self.rescale, "seed": self.seed}
        return tree_store.Partitions(n_trees, lifetime, absent=check_missing(self.missing), **rest)

    @abc.abstractmethod
    def _make_trees(self) -> Any:
        """Return new trees without samples."""

    # Interrupted calls.

    def _enter(self) -> None:
        trees = self._trees
        if trees is None:
            return
        trees.enter()
        # Empty trees are discarded, so that the next sample fixes the features and their types.
        is_empty = trees.is_empty
        self._features = self._features.first(0 if is_empty else trees.n_inputs)
        if is_empty:
            self._trees = None

    def _leave(self) -> None:
        if self._trees is not None:
            self._trees.open()

    def _settle(self) -> None:
        """Complete or undo an interrupted call, and make kernels accept calls for one sample."""
        self._enter()
        self._leave()

    # Learned state.

    @property
    @locked
    def widths(self) -> dict[Any, float]:
        """Width of each feature; 1 for a category, and for all features with `scale=False`.

        While trees are redrawn, these are the new widths. `tree_widths` returns the widths of one
        tree.
        """
        trees = self._trees
        widths = [] if trees is None else (1.0 / trees.next_scaling[1]).tolist()
        return dict(zip(self._features.names, widths, strict=False))

    @locked
    def tree_widths(self, tree: int) -> dict[Any, float]:
        """Return the width of each feature in one tree, which divides values by these widths.

        Parameters
        ----------
        tree
            Number of the tree, from 0 on.

        Returns
        -------
        A mapping from feature to width; empty before the first sample.

        Raises
        ------
        ValueError
            If the forest has no tree with this number.

        """
        check_index("tree", tree, self._n_readable)
        widths = [] if self._trees is None else self._trees.reader.widths_of(tree).tolist()
        return dict(zip(self._features.names, widths, strict=True))

    @property
    def n_samples(self) -> int:
        """Number of learned samples, including removed samples; 0 after all have been removed."""
        trees = self._trees
        return 0 if trees is None or trees.is_empty else trees.n_begun

    def _grown(self) -> Any:
        """Return the trees, created at first use so that an unseeded clone draws its own seed."""
        if self._trees is None:
            self._trees = self._make_trees()
        return self._trees

    # Reading samples and frames.

    def _read(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Return a mapping's checked values that are not missing."""
        return self._features.read(x, self._takes_levels)

    @locked
    def _read_frame(self, X: Any) -> Frame:
        """Return a frame's values after checking that columns have the types of their features."""
        return read_frame(X, self._features if self._takes_levels else None)

    def _add_features(self, values: Mapping[Hashable, float]) -> None:
        new = self._features.new_of(values)
        if new:
            gaps = np.array([gap_of(name, self.missing) for name in new])
            self._grown().add_inputs(list(new), np.array([*new.values()], float), gaps)
            self._features = self._features.with_more(new)
            if self.missing == "unknown":
                warn_of_words(self._features, len(values))

    def _whole(self) -> Any:
        """Return the trees, after completing or undoing an interrupted call."""
        trees = self._trees
        if trees is None or trees.version_now[0] != trees.version:
            self._settle()
        return self._trees

    def _learn_new(
        self,
        values: dict[Hashable, float],
        learn: Callable[[Any], None],
        add: Callable[[Any], object] | None = None,
    ) -> bool:
        """Learn a checked sample by calling `learn`; return whether the trees changed shape.

        Trees change shape if features are new, or if `add` adds a label or weights.
        """
        trees = self._grown()
        changes = add is not None or not values.keys() <= self._features.index_of.keys()
        if changes:
            trees.begin_change()
            self._add_features(values)
        if add is not None:
            add(trees)
        # The vector is written only now, because adding features may have replaced `trees.vector`.
        self._features.write(values, trees.vector)
        learn(trees)
        if changes:
            trees.end_change()
        return changes

    def _check_input(self, trees: Any, bad: int) -> None:
        """Raise an error for the input at index `bad`, which is too large, unless `bad` < 0."""
        self._features.check_input(bad, trees.vector)

    def _write(self, x: Mapping[Any, Any], trees: Any) -> None:
        """Write a sample to the trees' vector, for a prediction."""
        self._features.read_into(x, trees.vector, self._takes_levels)

    def _arrange(self, names: list[Hashable], columns: Floats) -> Floats:
        """Return a frame's columns in the order of the trees' inputs."""
        return self._features.arrange(names, columns, self._grown().inputs.shape[1])

    # Number of columns of the predictions before the first sample, which are zeros.
    _N_BEFORE = 0

    @locked
    def _predict_rows(
        self, X: Any, progress: bool, read: Callable[[Floats], Floats] = lambda said: said
    ) -> tuple[Any, Floats]:
        """Return `X` as a narwhals frame or an array, and the predictions, converted by `read`."""
        frame, names, columns = self._read_frame(X)
        trees = self._trees
        if trees is None:
            return frame, np.zeros((len(frame), self._N_BEFORE))
        rows, n_jobs = self._arrange(names, columns), self.n_jobs
        return frame, in_pieces(lambda rows: read(trees.predict_rows(rows, n_jobs)), rows, progress)

    @locked
    def resample(self) -> None:
        """Redraw all trees from the stored samples, in batch.

        If no values are missing, the new trees have the same distribution as the trees that were
        extended online.

        Raises
        ------
        ValueError
            If `max_nodes` has stopped the forest from storing its samples.

        """
        if self._trees is None:
            return
        if self._trees.forest.is_full:
            raise ValueError("samples have not been stored since every tree reached max_nodes")
        self._trees.build()


class SupervisedForest(MondrianForest):
    """Base class of the supervised forests, which attribute predictions to features."""

    # `_CHECK_Y` checks one label or target. `_READ_Y` reads the labels or targets of a frame's
    # rows.
    _CHECK_Y: ClassVar[Any]
    _READ_Y: ClassVar[Any]
    # Learns the rows of a frame, which may have new features.
    _learn_read: Callable[[Frame, Any, Any, bool], None]

    def learn_many(self, X: Any, y: Any, w: Any = 1.0, *, progress: bool = False) -> None:
        """Learn the rows of a frame, in order, with the same result as `learn_one` on each row.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers or categories (strings, truth values, categoricals, enums). Nulls and
            NaN are missing values.
        y
            The labels or targets of the rows, by position.
        w
            Weight of all rows, or one weight per row, from 0 to 1e30.
        progress
            Whether to show the number of learned rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`. After Ctrl-C, each row has been
            learned completely or not at all.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type. The
            same error is raised if a weight or target is not a number, or a label is not hashable.
        ValueError
            If a value, label, target or weight is invalid, a column occurs twice, or lengths
            differ. The same error is raised if `X` and `y` have the same pandas index in different
            orders. In all these cases, nothing is learned.

        """
        self._learn_read(self._read_frame(X), y, w, progress)

    @property
    @locked
    def feature_importances(self) -> dict[Any, float]:
        """Importances: the reduction of the loss by the cuts on each feature, averaged over trees.

        For labels, the loss is the log loss in nats per sample. Each learned label is predicted
        from earlier labels, by a mean over the prunings of the tree. For targets, the loss is the
        squared error per sample, in squared units of the target. Each learned target is predicted
        from all other targets. An irrelevant feature has an importance of about 0, often slightly
        below 0. A feature that is never cut has the importance 0. With `directions`, the reduction
        by a cut is shared among features, in proportion to |coefficient| times the feature's range.
        Importances add up to the reduction by all cuts.

        An adaptive forest averages over its trees of all samples. The adaptive regressor excludes
        trees that learn residuals or errors. Importances are computed from the trees, without
        samples. With 100,000 samples of 54 features and 10 trees, the computation takes .05 to 1
        second. It temporarily needs 8 bytes for each node and class of a tree. The mapping is empty
        before the first sample.
        """
        values = [] if self._trees is None else self._trees.reader.importances().tolist()
        return dict(zip(self.feature_names, values, strict=True))

    @property
    def _explainer(self) -> Any:
        """Reader of the trees, whose `absent` contains the inputs of a sample without values."""
        reader = self._trees.reader
        self._features.write({}, reader.absent)
        return reader

    def _explain(self, x: Mapping[Any, Any]) -> Floats:
        """Return the contributions of features to a prediction, shape (features, outputs).

        The contributions add up to the prediction minus `baseline`.

        Raises
        ------
        ValueError
            If a value is infinite or too large for single precision.

        """
        trees = self._trees
        if trees is None:
            return np.empty((0, 0))
        inputs = np.full(trees.n_inputs, np.nan)
        self._features.write(self._read(x), inputs)
        bad, contributions = self._explainer.explain(inputs)
        self._features.check_input(bad, inputs)
        return contributions


class TargetForest(SupervisedForest, base.MiniBatchRegressor):
    """Base class of the forest regressors, with explanations of predictions and tables of nodes."""

    _CHECK_Y = staticmethod(check_target)
    _READ_Y = staticmethod(read_targets)

    # Attributes of nodes that are columns in the table of a tree.
    _NUMBERS: ClassVar[tuple[str, ...]]

    def _columns(self, nodes: list[Any]) -> dict[str, list[Any]]:
        return {name: [getattr(node, name) for node in nodes] for name in self._NUMBERS}

    def _shades(self, nodes: list[Any]) -> reading.Shades:
        return reading.Shades(np.array([node.mean for node in nodes]), None, "mean")

    @property
    @locked
    def baseline(self) -> float:
        """Prediction without contributions of features; 0 before the first sample.

        In an exact forest, the baseline is the mean of the roots' predictions. In an adaptive
        forest, it is the prediction of a sample without values.
        """
        return 0.0 if self._trees is None else float(self._explainer.root_prediction()[0])

    @locked
    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return the contribution of each feature to the predicted target.

        In an exact forest, the change of the prediction at a cut on the sample's path is attributed
        to the cut's feature. If the sample is outside a node's box, the change is shared among
        features, in proportion to the distances from the box in each feature. With 10 trees and 16
        features, an explanation by an exact forest takes 3 to 11 milliseconds.

        In an adaptive forest, the values of the sample are added one after the other to a sample
        without values. Each feature gets the change that its value causes in the prediction. The
        mean over 12 random orders and their reverses estimates Shapley values. An explanation by an
        adaptive forest takes 24 predictions for each feature of the sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category; unknown features are
            ignored.

        Returns
        -------
        A mapping from feature to its contribution; `baseline` and all contributions add up to
        `predict_one`. The mapping is empty before the first sample.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type.
        ValueError
            If a value is infinite or too large for single precision.

        """
        contributions = self._explain(x)
        return dict(zip(self.feature_names, contributions.sum(axis=1).tolist(), strict=True))
