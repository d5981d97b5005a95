"""Explain a prediction of a Mondrian forest, print nodes, and draw a tree and its partition."""

from __future__ import annotations

import argparse

from matplotlib import pyplot as plt
from river import datasets

from river_mondrian import MondrianForestClassifier


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="tree.png", help="where the picture goes")
    arguments = parser.parse_args()

    model = MondrianForestClassifier(n_estimators=3, lifetime=8.0, seed=1)
    for x, y in datasets.Bananas().take(1000):
        model.learn_one(x, y)

    print(model.debug_one(x))
    print()
    print(model.to_dataframe(tree=0).head(10).to_string())

    _, (left, right) = plt.subplots(1, 2, figsize=(12, 5))
    model.draw(tree=0, ax=left)
    model.draw_partition(tree=0, ax=right)
    plt.tight_layout()
    plt.savefig(arguments.out, dpi=120)
    print(f"\npicture saved as {arguments.out}")


if __name__ == "__main__":
    main()
