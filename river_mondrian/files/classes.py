"""The classes that files may contain, by their names in files.

Loading a file creates objects of no other class of this package. If a class moves to another
module, its name in files stays the same.
"""

import functools
import importlib
from typing import Any

# The names of classes in files, by module. If a class has another name in its module, this name
# follows after a colon.
_NAMES = {
    "estimators.adaptive": "AdaptiveMondrianForestClassifier",
    "estimators.adaptive_regressor": "AdaptiveMondrianForestRegressor",
    "estimators.alarms": "Alarms",
    "estimators.calibrated": "CalibratedClassifier CalibratedRegressor",
    "learners.quantile_tracking": (
        "PredictedClasses:Classes PredictedInterval:Interval TrackedErrors:Errors TrackedOdds:Odds"
    ),
    "learners.late_labels": "WaitingPredictions",
    "estimators.density": "DensityForest",
    "estimators.dual": "DualOGDClassifier",
    "estimators.classifier": "MondrianForestClassifier",
    "estimators.regressor": "MondrianForestRegressor",
    "estimators.monitor": "ConformalDrift DriftMonitor",
    "learners.conformal": "DriftReference:Monitor",
    "learners.references": "MonitorTable",
    "estimators.nearest_neighbor": "NearestNeighborDetector",
    "posteriors.nearest": "NeighborTable NeighborTableRecord",
    "estimators.ogd": "OGDClassifier OGDRegressor",
    "estimators.random_cut": "RandomCutForest",
    "estimators.ridge": "RidgeRegressor",
    "features.kernel_maps": (
        "IsolationFeatures NystromFeatures RandomBinningFeatures RandomFourierFeatures"
    ),
    "features.mondrian": "MondrianFeatures _Start",
    "inputs": "FeatureIndex",
    "samples": "SampleReader",
    "learners.discriminants": "LinearDiscriminants LinearDiscriminantsRecord",
    "learners.drift": "DriftWatch DriftWatchRecord",
    "learners.experts": "Mixture MixtureRecord",
    "learners.neighbors": "Neighbors NeighborsRecord",
    "learners.regression.lags": "LaggedTargets LaggedTargetsRecord",
    "learners.regression.error_distribution": "ErrorDistribution ErrorDistributionRecord",
    "learners.regression.mixing": "TargetMixture TargetMixtureRecord",
    "learners.regression.records": "RidgeDesign:Design RidgeExpertsRecord",
    "learners.regression.ridges": "RidgeExperts",
    "learners.gradient_descent.descent": "DescentWeightsRecord",
    "learners.gradient_descent.weights": "Rule DescentWeights",
    "learners.ridge.posterior": "Posterior PosteriorNumbers",
    "learners.ridge.rotations": "PosteriorNumbersRecord HeldSamplesRecord",
    "learners.ridge.windows": "HeldSamples",
    "learners.support_vectors": "CellSupports SparseSupports",
    "maps.binning": "BinningMap BinningRecord",
    "maps.dense": "FourierMap FourierRecord NystromMap NystromRecord StoredRows",
    "maps.record": "Pool",
    "partitions.isolation": "IsolationTreesMap IsolationTrees",
    "partitions.mondrian.transforms": "Categories CutDirections",
    "partitions.voronoi.diagrams": "VoronoiMap",
    "partitions.voronoi.nearest": "DenseVoronoi IndexedVoronoi",
    "partitions.voronoi.tree": "PointTree",
    "posteriors.adaptive.class_forest": "AdaptiveForest:ClassForest",
    "posteriors.adaptive.nodes": "AdaptiveTree",
    "posteriors.adaptive.adaptive_trees": "AdaptiveTrees",
    "posteriors.adaptive_targets.targets_forest": "AdaptiveTargetForest:TargetsForest",
    "posteriors.adaptive_targets.means": "AdaptiveTargetTree:TargetsTree",
    "posteriors.adaptive_targets.adaptive_target_trees": "AdaptiveTargetTrees",
    "posteriors.cells": "MondrianMap MondrianRecord CellForest CellTree CellTrees",
    "posteriors.course": "Course CourseRecord",
    "posteriors.displacement": "CutForest CutTrees RecentScores RecentScoresRecord",
    "partitions.mondrian.records": "MondrianTree:Tree",
    "density.mixture": "PivotForest",
    "density.regions": "PivotTree",
    "density.trees": "PivotTrees",
    "posteriors.labels.records": "LabelForest LabelTree",
    "posteriors.labels.label_trees": "LabelTrees",
    "posteriors.targets.messages": "TargetForest TargetTree",
    "posteriors.targets.target_trees": "TargetTrees",
}
# The module of each class, by the class's name in files. If the class has another name in its
# module, this name follows after a colon.
HOMES = {
    name.partition(":")[0]: home + "".join(name.partition(":")[1:])
    for home, names in _NAMES.items()
    for name in names.split()
}

_PACKAGE = __name__.rpartition(".files.")[0]


def _home_of(name: str) -> tuple[str, str]:
    """Return a class's module, and its name in this module."""
    home, _, inner = HOMES[name].partition(":")
    return f"{_PACKAGE}.{home}", inner or name


@functools.cache
def _names() -> dict[tuple[str, str], str]:
    return {_home_of(name): name for name in HOMES}


def name_of(cls: type[Any]) -> str | None:
    """Return the name of a class in files, or None if files may not contain the class."""
    return _names().get((cls.__module__, cls.__qualname__))


def class_of(name: str) -> type[Any]:
    """Return the class with a name in files.

    Raises
    ------
    KeyError
        If no class has this name.

    """
    module, inner = _home_of(name)
    return getattr(importlib.import_module(module), inner)
