"""Small models of all kinds, for tests of files and for golden files.

`python tests/stored_models.py` writes the golden files of a format, once the format is final.
"""

import json
from pathlib import Path

import numpy as np
from common import Adaptive, AdaptiveTargets, Exact, Targets, answers, fed, stream
from river import drift, optim
from scipy import stats
from test_configurations import CELLS, CONFIGURATIONS, FOURIER

import river_mondrian as rm
from river_mondrian.files.store import FORMAT

# Whether the newest format is final and has golden files; otherwise the format may still change.
FORMAT_IS_FINAL = True

# Golden files, in a folder per format.
GOLDEN = Path(__file__).parent / "golden"


WEIGHTED = [({"a": 0.5, "b": 1.0}, 1, 2.5)]
LEVEL = {"a": 0.5, "b": 1.0, "color": "red"}
LEVELS = [(LEVEL, 1), ({"a": 0.1, "color": "blue", "flag": True}, 0)]
# With this many features, nodes are light.
WIDE = [({"a": 0.5, "b": 1.0} | {f"c{i}": 0.1 * i for i in range(126)}, 1)]
PAIR = [rm.NearestNeighborDetector(window=24, seed=1), rm.RandomCutForest(2, seed=1)]
SHINGLES = rm.RandomCutForest(2, window=None, shingle=3, seed=1)
NEIGHBORS = rm.NearestNeighborDetector(window=24, max_samples=12, shingle=2, seed=1)
RISING = [{"a": 1.0, "b": np.float64(0.5)}, {"c": -1.0}]


def watched(detector, **params):
    return lambda: Adaptive(2, drift_detector=detector, **params, seed=1)


# Models whose files have arrays that no file of `CONFIGURATIONS` has.
OWN = {
    "adaptive, weights": lambda: fed(Adaptive(2, n_candidates=3, seed=1), WEIGHTED),
    "adaptive, ADWIN": watched(drift.ADWIN(grace_period=5), window=1000),
    "adaptive, Page-Hinkley": watched(drift.PageHinkley(threshold=5.0)),
    "adaptive, KSWIN": watched(drift.KSWIN(seed=1), autoregressive=True),
    "adaptive, HDDM-W": watched(drift.binary.HDDMW(), max_bytes=1 << 20),
    "adaptive, levels": lambda: fed(Adaptive(2, 3, missing="zero", seed=1), LEVELS),
    "adaptive regressor": lambda: AdaptiveTargets(
        5, n_candidates=3, autoregressive=True, drift_detector=drift.NoDrift(), seed=1
    ),
    "adaptive regressor, levels": lambda: fed(AdaptiveTargets(3, loss="squared", seed=1), LEVELS),
    "classifier, wide": lambda: fed(Exact(2, seed=1), WIDE),
    "classifier, given directions": lambda: Exact(2, directions=RISING, seed=1),
    "classifier, weights": lambda: fed(Exact(3, seed=1), WEIGHTED),
    "classifier, levels": lambda: fed(Exact(3, seed=1), LEVELS),
    "classifier, many classes": lambda: fed(Exact(2, seed=1), [({"a": 0.5}, k) for k in range(70)]),
    "regressor, levels": lambda: fed(Targets(2, seed=1), LEVELS),
    "regressor, normal": lambda: Targets(
        2, lifetime=2, tails="normal", min_samples_split=4, seed=1
    ),
    "density, mixed": lambda: rm.DensityForest(2, window=20, seed=1),
    "monitor": lambda: fed(rm.DriftMonitor(grace_period=16, seed=1), [LEVEL]),
    "random cuts": lambda: rm.RandomCutForest(2, window=24, max_samples=12, seed=1),
    "random cuts, shingles": lambda: fed(SHINGLES.clone(), [LEVEL]),
    "nearest neighbors": lambda: fed(NEIGHBORS.clone(), [LEVEL]),
    "alarms": lambda: fed(rm.Alarms(PAIR, average=5, window=100, calendar=["b"]), [LEVEL]),
    "calibrated": lambda: rm.Calibrated(Exact(2, seed=1), by_class=True),
    "calibrated regressor": lambda: rm.Calibrated(Targets(2, seed=1)),
    "mondrian, levels": lambda: fed(rm.MondrianFeatures(4, seed=1), [LEVEL]),
    "mondrian, gamma": lambda: rm.MondrianFeatures(3, stats.expon(scale=2.0), directions=2, seed=1),
    "ogd, ovr": lambda: rm.OGDClassifier(
        CELLS,
        loss=optim.losses.Log(weight_pos=2.0),
        learning_rate=optim.schedulers.InverseScaling(0.3),
        multiclass="ovr",
    ),
    "ogd regressor": lambda: rm.OGDRegressor(
        FOURIER, optim.losses.Quantile(0.3), optim.AdaGrad(0.2)
    ),
}
# Files cannot store the lifetime of the excluded model, which is a function.
MODELS = {name: make for name, make in CONFIGURATIONS.items() if name != "means, growing"} | OWN

# Models with golden files, at least one of each class that earlier versions could save.
IN_GOLDEN = ["alarms", "adaptive", "adaptive regressor", "adaptive, weights", "classifier"]
IN_GOLDEN += ["classifier, weights", "classifier, wide", "classifier, levels"]
IN_GOLDEN += ["adaptive, levels", "regressor", "density", "density, mixed", "random cuts"]
IN_GOLDEN += ["monitor", "nearest neighbors", "calibrated", "calibrated regressor", "isolation"]
IN_GOLDEN += ["mondrian", "nystrom", "binning", "fourier", "ogd", "ogd regressor", "ridge", "dual"]


def learned(name, n=40):
    return fed(MODELS[name](), stream(n))


def write_golden():
    folder = GOLDEN / str(FORMAT)
    folder.mkdir(parents=True)
    known = {}
    for name in IN_GOLDEN:
        model = MODELS[name]()
        fed(model, stream(20))
        rm.save(model, folder / f"{name}.safetensors", extra={"position": 20})
        now = answers(model)
        fed(model, stream(20, 3, ("a", "b", "c"), 3))
        known[name] = {"now": now, "later": answers(model)}
    (folder / "answers.json").write_text(json.dumps(known, indent=1))


if __name__ == "__main__":
    write_golden()
