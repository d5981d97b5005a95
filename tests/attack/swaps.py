"""Forge files of valid parts that do not fit each other.

There are three kinds of exchanges. A part of a model's file is replaced by the part at the same
path in another file of the same class. An object is replaced by another object. A learner gets
another size, with arrays of matching shapes. `python tests/attack/swaps.py` makes all exchanges for
each kind of model. This command reads the same environment variables as `bitflips`.
"""

import sys
from collections import Counter
from functools import cache, partial
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from common import fed, stream
from river import base
from stored_models import IN_GOLDEN, MODELS, learned

from attack import bitflips
from river_mondrian.files.classes import class_of
from river_mondrian.files.forms import Decoder, Encoder
from river_mondrian.learners.learned import declared
from river_mondrian.records.record import Role

BAD = (bitflips.MEMORY, *bitflips.BAD_OF_FILES)


def larger(model):
    """Return a new model with larger integer arguments, also in its maps and detectors."""
    found = {name: getattr(model, name) for name in model._get_params()}
    for name, value in found.items():
        if type(value) is int:
            found[name] = value + 2
        elif isinstance(value, base.Base) and "river_mondrian" in type(value).__module__:
            found[name] = larger(value)
    return type(model)(**found)


def parts(tree, path=()):
    """Yield the path of each part of a file's tree, with the part."""
    yield path, tree
    if isinstance(tree, list):
        tree = dict(enumerate(tree))
    for key, one in tree.items() if isinstance(tree, dict) else ():
        yield from parts(one, (*path, key))


def opened(model, name, arrays):
    """Return the parts of a model's file by path, and add the arrays of the file to `arrays`."""
    encoder = Encoder()
    tree = encoder.encode(model, name)
    arrays |= encoder.arrays
    return dict(parts(tree))


def class_in(part):
    """Return the name of the class of an object or of records in a file, or None."""
    return part.get("object", part.get("records")) if isinstance(part, dict) else None


@cache
def strangers():
    """Return an object of each class in the golden models' files, and the objects' arrays."""
    arrays = {}
    found = [one for name in IN_GOLDEN for one in opened(learned(name), name, arrays).values()]
    return [*{class_in(one): one for one in found if class_in(one)}.values()], arrays


def resized(part, arrays):
    """Yield copies of a learner, each with another size; add the new arrays to `arrays`."""
    state = part["state"]["attributes"]
    fields = class_of(state["memory"]["records"]).FIELDS
    for size in sorted({size for field in fields.values() for size in field.shape} & {*fields}):
        for change in (-1, 1):
            memory, encoder = Decoder(arrays, {}).decode(state["memory"]), Encoder()
            for record in memory:
                setattr(record, size, max(0, getattr(record, size) + change))
            new = {one.key: one.zeros() for one in declared(memory, Role.STATE)}
            name = f"{len(arrays)}"
            made = {"memory": encoder.encode(memory, name), "learned": encoder.encode(new, name)}
            made["memory"]["number"] = state["memory"]["number"]
            arrays |= encoder.arrays
            yield part | {"state": {"attributes": state | made}}


def swaps(name, n):
    """Return the tree of a model's file after `n` samples, the exchanges, and all arrays."""
    alike = [one for one in MODELS if type(MODELS[one]()) is type(MODELS[name]())]
    models = [
        learned(name, n),
        fed(larger(MODELS[name]()), stream(90, 3, "abcd", 3)),
        fed(MODELS[name](), stream(340 - n, 4, "a")),
        fed(MODELS[alike[(alike.index(name) + 1) % len(alike)]](), stream(n, 5, "abc", 3)),
    ]
    objects, arrays = (one.copy() for one in strangers())
    tree, *donors = (opened(model, f"{i}", arrays) for i, model in enumerate(models))
    objects += [one for own in (tree, *donors) for one in own.values() if class_in(one)]
    found = []
    for path, part in tree.items():
        others = [donor[path] for donor in donors if donor.get(path, part) != part]
        if class_in(part):
            others += objects
            if "learned" in part.get("state", {}).get("attributes", {}):
                others += resized(part, arrays)
        found += [(path, one) for one in others if path]
    return tree[()], found, arrays


def replaced(tree, path, part):
    """Return a tree with another part at a path."""
    if not path:
        return part
    made = tree.copy()
    made[path[0]] = replaced(tree[path[0]], path[1:], part)
    return made


def load(tree, arrays, swap):
    """Return the model that is loaded from a file with an exchanged part."""
    return Decoder(arrays, {}).decode(replaced(tree, *swap))


def attack(name, n=None, seed=0):
    """Return the counts of outcomes of exchanges, and the exchanges with forbidden outcomes.

    For each number of samples in `bitflips.LEARNED`, at most `n` exchanges are made, or all.
    """
    counts, bad = Counter(), []
    for learned_n in bitflips.LEARNED:
        tree, found, arrays = swaps(name, learned_n)
        # Kernels are compiled before the fork, so that the children need not compile them.
        bitflips.use(load(tree, arrays, ((), tree)))
        order = np.random.default_rng([seed, learned_n]).permutation(len(found))[:n]
        found = [found[i] for i in order]
        outcomes = bitflips.run(partial(load, tree, arrays), found, type(MODELS[name]()))
        counts.update(outcomes)
        for outcome, (path, part) in zip(outcomes, found, strict=True):
            if outcome in BAD:
                bad.append((outcome, learned_n, "/".join(map(str, path)), str(part)[:80]))
    return counts, bad


def main():
    forbidden = []
    for name in sys.argv[1:] or MODELS:
        counts, bad = attack(name)
        print(name, dict(counts), *bad, sep="\n  ", flush=True)
        forbidden += bad
    sys.exit(bool(forbidden))


if __name__ == "__main__":
    main()
