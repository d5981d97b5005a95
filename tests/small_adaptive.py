"""A small adaptive forest and what it predicts, for tests that run it in several modes."""

from __future__ import annotations

import numpy as np

from river_mondrian import AdaptiveMondrianForestClassifier
from river_mondrian.posteriors.rebuilt import trees as rebuilt_trees

N_SAMPLES = 110
# After so many samples the trees are built anew of the latest 40, over several calls.
FORGETS_AT = 70
BUILD_BUDGET = 20


def samples():
    """Make samples of which some lack a value; a class comes late."""
    rng = np.random.default_rng(3)
    found = []
    for i in range(N_SAMPLES):
        a, b = rng.random(2).tolist()
        x = {"a": a, "b": b} if rng.random() < 0.9 else {"b": b}
        late = i > N_SAMPLES // 2 and b > 0.7
        found.append((x, 4 + int(4 * a) if late else int(a + b > 1.0)))
    return found


def results():
    """Return the predictions of each sample before it is learned, and the nodes at last."""
    whole, rebuilt_trees.BUILD_BUDGET = rebuilt_trees.BUILD_BUDGET, BUILD_BUDGET
    model = AdaptiveMondrianForestClassifier(3, n_candidates=4, autoregressive=True, seed=1)
    predicted = []
    for i, (x, y) in enumerate(samples()):
        predicted.append(list(model.predict_proba_one(x).values()))
        # The later samples do not all weigh 1.
        model.learn_one(x, y, 1.0 if i < N_SAMPLES // 3 else 0.5 + i % 3)
        if i == FORGETS_AT:
            model._trees.forget_before(40)
    rebuilt_trees.BUILD_BUDGET = whole
    nodes = [
        [node.depth, node.dim, node.n_samples, *node.counts.tolist(), float(node.time)]
        for t in range(2)
        for node in model._trees.read(t)
    ]
    roots = [model._trees.read(t)[0].n_samples for t in range(2)]
    return {"predicted": predicted, "nodes": nodes, "roots": roots}
