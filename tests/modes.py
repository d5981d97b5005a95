"""Results of small models, for `test_modes`, which runs this in several modes: they are printed."""

from __future__ import annotations

import json
import sys

import small_adaptive
import small_forests
import small_learners
import small_mixtures

from river_mondrian.partitions.voronoi import diagrams as voronoi


def results(with_forests):
    """Return the results of all small models, by their names."""
    # A small map searches in all ways.
    voronoi.TREE_LEAST, voronoi.PRODUCT_LEAST = 1, 2
    found = {f"map, {name}": small_forests.of_map(name) for name in small_forests.MAPS}
    found |= {f"learner, {name}": rows for name, rows in small_learners.results().items()}
    found |= {name: result() for name, result in small_mixtures.RESULTS.items()}
    found["adaptive"] = small_adaptive.results()
    if with_forests:
        found |= {f"forest, {n}": small_forests.of_forest(n) for n in small_forests.FORESTS}
    return found


if __name__ == "__main__":
    json.dump(results(with_forests="forests" in sys.argv), sys.stdout)
