"""Run CapyMOA's learners on streams of numbers; prints a line of JSON for each run.

An interpreter that has CapyMOA runs this file alone, with the path of an .npz file (arrays X and y)
and the names of learners. It needs neither this package nor River.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from capymoa import classifier, regressor
from capymoa.evaluation import prequential_evaluation
from capymoa.stream import NumpyStream

LEARNERS: dict[str, Any] = {
    "ARF of 10": lambda s, seed: classifier.AdaptiveRandomForestClassifier(
        s, ensemble_size=10, random_seed=seed
    ),
    "ARF of 100": lambda s, seed: classifier.AdaptiveRandomForestClassifier(s, random_seed=seed),
    "SRP of 10": lambda s, seed: classifier.StreamingRandomPatches(
        s, ensemble_size=10, random_seed=seed
    ),
    "SGBT": lambda s, seed: classifier.StreamingGradientBoostedTrees(s, random_seed=seed),
    "SAM-kNN": lambda s, seed: classifier.SAMkNN(s, random_seed=seed),
    "ARF-Reg of 100": lambda s, seed: regressor.AdaptiveRandomForestRegressor(s, random_seed=seed),
    "SOKNL of 100": lambda s, seed: regressor.SOKNL(s, random_seed=seed),
    "SGBR": lambda s, seed: regressor.StreamingGradientBoostedRegression(s, random_seed=seed),
}


def main() -> None:
    path, names = sys.argv[1], sys.argv[2:]
    with np.load(path) as arrays:
        X, y = arrays["X"], arrays["y"]
    kind = "numeric" if y.dtype.kind == "f" else "categorical"
    stream = NumpyStream(X, y, target_type=kind)
    for name in names:
        learner = LEARNERS[name](stream.get_schema(), 1)
        # The processor's time, with the threads of Java's compiler and garbage collector.
        start = time.process_time()
        found = prequential_evaluation(stream, learner, window_size=len(X))["cumulative"]
        seconds = time.process_time() - start
        score = found.mae() if kind == "numeric" else found.accuracy() / 100.0
        print(json.dumps({"name": name, "score": score, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
