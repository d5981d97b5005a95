"""Run CapyMOA's learners on a stream of numbers, and print a line of JSON for each learner.

This file runs in an interpreter with CapyMOA, which needs neither this package nor River. Its
arguments are the path of an .npz file (arrays X and y) and the names of learners.
"""

import json
import sys
import time
from typing import Any

import numpy as np

CLASSIFIERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ARF of 10": ("AdaptiveRandomForestClassifier", {"ensemble_size": 10}),
    "ARF of 100": ("AdaptiveRandomForestClassifier", {}),
    "SRP of 10": ("StreamingRandomPatches", {"ensemble_size": 10}),
    "SGBT": ("StreamingGradientBoostedTrees", {}),
    "SAM-kNN": ("SAMkNN", {}),
}
REGRESSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "ARF-Reg of 100": ("AdaptiveRandomForestRegressor", {}),
    "SOKNL of 100": ("SOKNL", {}),
    "SGBR": ("StreamingGradientBoostedRegression", {}),
}


def main() -> None:
    from capymoa import classifier, regressor
    from capymoa.evaluation import prequential_evaluation
    from capymoa.stream import NumpyStream

    path, names = sys.argv[1], sys.argv[2:]
    with np.load(path) as arrays:
        X, y = arrays["X"], arrays["y"]
    is_numeric = y.dtype.kind == "f"
    module, learners = (regressor, REGRESSORS) if is_numeric else (classifier, CLASSIFIERS)
    stream = NumpyStream(X, y, target_type="numeric" if is_numeric else "categorical")
    for name in names:
        kind, options = learners[name]
        learner = getattr(module, kind)(stream.get_schema(), random_seed=1, **options)
        # The processor time includes the threads of Java's compiler and garbage collector.
        start = time.process_time()
        found = prequential_evaluation(stream, learner, window_size=len(X))["cumulative"]
        seconds = time.process_time() - start
        score = found.mae() if is_numeric else found.accuracy() / 100.0
        print(json.dumps({"name": name, "score": score, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
