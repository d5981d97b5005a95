"""Which classes may be in a file, by the names that they have there.

Nothing else of this package is ever made by loading, and what a class is called in files stays when
it moves.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

# Estimators and feature maps, what they consist of, and records.
HOMES = {
    "AdaptiveMondrianForestClassifier": "estimators.adaptive",
    "AdaptiveMondrianForestRegressor": "estimators.adaptive_regressor",
    "Alarms": "estimators.alarms",
    "CalibratedClassifier": "estimators.calibrated",
    "CalibratedRegressor": "estimators.calibrated",
    "PredictedClasses": "estimators.calibrated:Classes",
    "PredictedInterval": "estimators.calibrated:Interval",
    "TrackedErrors": "estimators.calibrated:Errors",
    "TrackedOdds": "estimators.calibrated:Odds",
    "DensityForest": "estimators.density",
    "DualOGDClassifier": "estimators.dual",
    "MondrianForestClassifier": "estimators.classifier",
    "MondrianForestRegressor": "estimators.regressor",
    "NearestNeighborDetector": "estimators.nearest_neighbor",
    "NeighborTable": "posteriors.nearest",
    "Neighbors": "posteriors.nearest",
    "OGDClassifier": "estimators.ogd",
    "OGDRegressor": "estimators.ogd",
    "RandomCutForest": "estimators.random_cut",
    "RidgeRegressor": "estimators.ridge",
    "IsolationFeatures": "features.kernel_maps",
    "MondrianFeatures": "features.mondrian",
    "NystromFeatures": "features.kernel_maps",
    "RandomBinningFeatures": "features.kernel_maps",
    "RandomFourierFeatures": "features.kernel_maps",
    "_Start": "features.mondrian",
    "FeatureIndex": "inputs",
    "SampleReader": "samples",
    "LinearDiscriminants": "learners.discriminants",
    "Discriminants": "learners.discriminants",
    "DriftErrors": "learners.drift:Errors",
    "DriftWatch": "learners.drift",
    "Experts": "learners.experts",
    "Mixture": "learners.experts",
    "LaggedTargets": "learners.regression.lags",
    "Lags": "learners.regression.lags",
    "ErrorLaw": "learners.regression.error_law",
    "ErrorLaws": "learners.regression.error_law",
    "TargetMixture": "learners.regression.mixing",
    "TargetMixtures": "learners.regression.mixing",
    "RidgeDesign": "learners.regression.records:Design",
    "RidgeExperts": "learners.regression.ridges",
    "Ridges": "learners.regression.records",
    "GradientDescent": "learners.gradient_descent.descent",
    "Rule": "learners.gradient_descent.weights",
    "DescentWeights": "learners.gradient_descent.weights",
    "Posterior": "learners.ridge.posterior",
    "RidgePosterior": "learners.ridge.rotations",
    "HeldSamples": "learners.ridge.windows:Held",
    "CellSupports": "learners.support_vectors",
    "SparseSupports": "learners.support_vectors",
    "BinningMap": "maps.binning",
    "BinningRecord": "maps.binning",
    "FourierMap": "maps.dense",
    "FourierRecord": "maps.dense",
    "NystromMap": "maps.dense",
    "NystromRecord": "maps.dense",
    "StoredRows": "maps.dense",
    "Pool": "maps.record",
    "IsolationTreesMap": "partitions.isolation",
    "IsolationTrees": "partitions.isolation",
    "Categories": "partitions.mondrian.transforms",
    "CutDirections": "partitions.mondrian.transforms",
    "VoronoiMap": "partitions.voronoi.diagrams",
    "DenseVoronoi": "partitions.voronoi.nearest",
    "IndexedVoronoi": "partitions.voronoi.nearest",
    "PointTree": "partitions.voronoi.tree",
    "AdaptiveForest": "posteriors.adaptive.learning:ClassForest",
    "AdaptiveTree": "posteriors.adaptive.statistics",
    "AdaptiveTrees": "posteriors.adaptive.trees",
    "AdaptiveTargetForest": "posteriors.adaptive_targets.learning:TargetsForest",
    "AdaptiveTargetTree": "posteriors.adaptive_targets.prediction:TargetsTree",
    "AdaptiveTargetTrees": "posteriors.adaptive_targets.trees",
    "MondrianMap": "posteriors.cells",
    "MondrianRecord": "posteriors.cells",
    "CellForest": "posteriors.cells",
    "CellTree": "posteriors.cells",
    "CellTrees": "posteriors.cells",
    "CutForest": "posteriors.displacement",
    "CutTrees": "posteriors.displacement",
    "MondrianTree": "partitions.mondrian.records:Tree",
    "PivotForest": "density.mixture",
    "PivotTree": "density.regions",
    "PivotTrees": "density.trees",
    "LabelForest": "posteriors.labels.records",
    "LabelTree": "posteriors.labels.records",
    "LabelTrees": "posteriors.labels.trees",
    "TargetForest": "posteriors.targets.messages",
    "TargetTree": "posteriors.targets.messages",
    "TargetTrees": "posteriors.targets.trees",
}

_PACKAGE = __name__.rpartition(".files.")[0]


def _place(name: str) -> tuple[str, str]:
    """Return the module and the name there of a class."""
    home, _, own = HOMES[name].partition(":")
    return f"{_PACKAGE}.{home}", own or name


@functools.cache
def _names() -> dict[tuple[str, str], str]:
    return {_place(name): name for name in HOMES}


def name_of(cls: type[Any]) -> str | None:
    """Return what a class is called in files; None where it may be in none."""
    return _names().get((cls.__module__, cls.__qualname__))


def class_of(name: str) -> type[Any]:
    """Return the class that a name in a file means.

    Raises
    ------
    KeyError
        If it means none.

    """
    module, own = _place(name)
    found: type[Any] = getattr(importlib.import_module(module), own)
    return found
