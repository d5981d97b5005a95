"""Results of a process in which names of numba are missing, or raise errors when they are used.

`python tests/broken_numba.py HOW CLASS NAME ...` prints the results of a kernel and of a model. The
modules with kernels are imported after the names are broken.
"""

import json
import math
import pickle
import sys
from collections.abc import Callable

from river_mondrian import records as rec
from river_mondrian.records import private


class Row(rec.Record):
    """A row of a table."""

    number: rec.Int64

    def doubled(self) -> int:
        """Return twice the number."""
        return self.number + self.number


class Holder(rec.Record):
    """The owner of a table."""

    share: rec.Float32
    rows: rec.Table[Row]
    entered: Callable[[int], float] = rec.entry()


def results(name):
    """Return the results of a kernel, and of a model that is saved and loaded."""
    import river_mondrian
    from river_mondrian.compiling.kernels import cold, kernel, link_by_name, set_entries
    from river_mondrian.records.memory import ChunkedRows
    from river_mondrian.rehearsal import samples

    @link_by_name
    @cold
    def entered(number: int) -> float:
        return math.sqrt(number)

    @link_by_name
    def added(holder: Holder, j: int) -> float:
        return holder.share + holder.entered(holder.rows.row(j).doubled())

    def total(holder: Holder, n: int) -> float:
        total = 0.0
        for j in range(n):
            total += added(holder, j)
        return total

    holder, rows = rec.Memory(Holder)[0], ChunkedRows(1, Row.WORDS)
    rows.show(0, holder.rows)
    rows.grow(0, holder.rows, 3)
    set_entries(holder, entered)
    holder.share, holder.rows.row(1).number = 0.25, 7
    found = [kernel(total)(holder, 3)]
    model = getattr(river_mondrian, name)(seed=1)
    is_supervised = hasattr(model, "predict_one")
    for x, y in samples(40):
        model.learn_one(x, *([y] if is_supervised else []))
    model = pickle.loads(pickle.dumps(model))
    for reading in ("transform_one", "score_one", "predict_proba_one", "predict_one"):
        if hasattr(model, reading):
            value = getattr(model, reading)({0: 0.3, 1: 0.7})
            found += value.values() if isinstance(value, dict) else [float(value)]
    return found


class Raises:
    """An object for which every use raises an error."""

    def __call__(self, *args, **kwargs):
        raise RuntimeError("changed")

    def __getattr__(self, name):
        raise RuntimeError("changed")

    def __mro_entries__(self, bases):
        raise RuntimeError("changed")


def break_names(how, names):
    """Let names be missing, or raise errors when they are used."""
    look_up = private.look_up

    def changed(name, owner=None):
        if name not in names:
            return look_up(name, owner)
        if how == "missing":
            raise AttributeError(name)
        return Raises()

    private.look_up = changed


if __name__ == "__main__":
    how, model, *names = sys.argv[1:]
    break_names(how, names)
    json.dump(results(model), sys.stdout)
