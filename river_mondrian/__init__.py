"""Online random forests, anomaly detectors and kernel features for River."""

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__
from .files.classes import HOMES

if TYPE_CHECKING:
    from .checks import ModelFormatError
    from .estimators.adaptive import AdaptiveMondrianForestClassifier
    from .estimators.adaptive_regressor import AdaptiveMondrianForestRegressor
    from .estimators.alarms import Alarms
    from .estimators.calibrated import Calibrated
    from .estimators.classifier import MondrianForestClassifier
    from .estimators.density import DensityForest
    from .estimators.density_readings import exact_density
    from .estimators.dual import DualOGDClassifier
    from .estimators.incidents import Alarm
    from .estimators.merging import merge
    from .estimators.monitor import ConformalDrift, Drift, DriftMonitor
    from .estimators.nearest_neighbor import NearestNeighborDetector
    from .estimators.ogd import OGDClassifier, OGDRegressor
    from .estimators.random_cut import RandomCutForest
    from .estimators.regressor import MondrianForestRegressor
    from .estimators.ridge import RidgeRegressor
    from .features.kernel_maps import (
        IsolationFeatures,
        NystromFeatures,
        RandomBinningFeatures,
        RandomFourierFeatures,
    )
    from .features.mondrian import MondrianFeatures
    from .files.store import load, save
    from .learners.lifetimes.path import lifetime_path
    from .predictive import PredictiveDistribution

__all__ = [
    "AdaptiveMondrianForestClassifier",
    "AdaptiveMondrianForestRegressor",
    "Alarm",
    "Alarms",
    "Calibrated",
    "ConformalDrift",
    "DensityForest",
    "Drift",
    "DriftMonitor",
    "DualOGDClassifier",
    "IsolationFeatures",
    "ModelFormatError",
    "MondrianFeatures",
    "MondrianForestClassifier",
    "MondrianForestRegressor",
    "NearestNeighborDetector",
    "NystromFeatures",
    "OGDClassifier",
    "OGDRegressor",
    "PredictiveDistribution",
    "RandomBinningFeatures",
    "RandomCutForest",
    "RandomFourierFeatures",
    "RidgeRegressor",
    "exact_density",
    "lifetime_path",
    "load",
    "merge",
    "save",
]

# Modules of public names. The modules of models that files can store are in `files.classes.HOMES`.
_HOMES = {
    "Alarm": "estimators.incidents",
    "Calibrated": "estimators.calibrated",
    "Drift": "estimators.monitor",
    "ModelFormatError": "checks",
    "PredictiveDistribution": "predictive",
    "exact_density": "estimators.density_readings",
    "lifetime_path": "learners.lifetimes.path",
    "load": "files.store",
    "merge": "estimators.merging",
    "save": "files.store",
}


def __getattr__(name: str) -> Any:
    """Return a public name, imported at first use because importing all names takes long."""
    if name == "plot":
        return importlib.import_module(f".{name}", __name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name) or HOMES[name]
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
