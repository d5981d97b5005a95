"""References of the drift monitor: fill, describe and replace them."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, Self

import numpy as np

from .. import records as rec
from ..arguments import ENTRY_DRAWS
from ..checks import check_equal, check_number, check_types, refuse
from ..inputs import FeatureIndex
from ..limits import LEAST_LEVEL
from .conformal import (
    CHANGES,
    COLLECTING,
    EDGES,
    LABEL,
    LARGEST_SCALED,
    LARGEST_TERM,
    MOST_DEPENDENT,
    MOST_LEVELS,
    N_BINS,
    N_CUTS,
    N_EDGES,
    N_NEAR,
    TARGET,
    WATCHING,
    Monitor,
    score_reference,
)
from .learned import Learned

# Cuts between bins of scores that are counts.
COUNT_CUTS = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 8.5, 11.5, 15.5, 22.5, 31.5, 63.5, 127.5, 255.5]
# Largest number of new features, or new labels, in a report.
MOST_NEW_NAMES = 10


def cuts_of(scores: rec.Floats) -> rec.Floats:
    """Return cuts at quantiles of scores; a frequent score has a separate bin."""
    known, cuts = np.sort(scores[~np.isnan(scores)]), np.full(N_CUTS, np.inf)
    if len(known):
        quantiles = known[np.arange(1, N_BINS) * len(known) // N_BINS]
        values, n = np.unique(quantiles, return_counts=True)
        # The number next to 0 is subnormal, and NumPy may report it as an underflow.
        with np.errstate(under="ignore"):
            distinct = np.sort(np.append(values, np.nextafter(values[n > 1], np.inf)))
        cuts[: len(distinct)] = distinct
    return cuts


def _scaling(column: rec.Floats) -> tuple[float, float, float]:
    """Return a feature's centre, 1 / standard deviation, and distance of two levels.

    A category has 0 for the first two, and a numerical feature has 0 for the distance.
    """
    known = column[~np.isnan(column)]
    if known[0] >= LEAST_LEVEL:
        shares = np.unique(known, return_counts=True)[1] / len(known)
        different = 0.5 * max(1.0 - float((shares * shares).sum()), 1e-9)
        return 0.0, 0.0, min(1.0 / math.sqrt(different), LARGEST_TERM)
    centre, width = float(known.mean()), float(np.ptp(known)) or 1.0
    # The division by the range bounds the squares, which could otherwise be infinite.
    deviation = width * float(((known - centre) / width).std())
    return centre, 1.0 / deviation if deviation > 0.0 else 1.0, 0.0


class MonitorTable(Learned[Monitor]):
    """The owner of a reference and of the next reference.

    A change that needs several calls of a kernel is made in a copy, which then replaces the table.
    So an interrupted change has no effect.

    Parameters
    ----------
    bar
        The factor A of the evidence that raises an alarm (see `conformal`).
    spacing, capacity, kinds
        The parameters `spacing`, `grace_period` and `kinds` of the monitor.

    """

    _KIND = Monitor
    # Values may be missing.
    _HAS_NAN = True
    _DERIVED = Learned._DERIVED | {"vector"}

    def __init__(self, bar: float, spacing: int, capacity: int, kinds: tuple[str, ...]) -> None:
        super().__init__(bar=bar, spacing=spacing, capacity=capacity)
        self.kinds = kinds
        # Features, and the number of each label: for the reference, and for the next reference.
        self.features, self.next_features = FeatureIndex(), FeatureIndex()
        self.labels: dict[Hashable, int] = {}
        self.next_labels: dict[Hashable, int] = {}
        self.show()

    def seed(self, seed: int | None) -> None:
        """Set the random state."""
        seeds = np.random.SeedSequence(seed, spawn_key=(ENTRY_DRAWS,))
        self.record.v_state = int(seeds.generate_state(1, np.uint64).view(np.int64)[0])

    def show(self, predicted: rec.Floats | None = None) -> None:
        """Set the record's references to its arrays."""
        super().show()
        self.vector = self.memory.arrays["vector"]

    def __getstate__(self) -> dict[str, Any]:
        # Rows beyond `n_filled` have arbitrary values. They are set to 0, because otherwise pickles
        # of equal states could differ.
        state, n = super().__getstate__(), int(self.record.n_filled)
        rows = {name: self.learned[name].copy() for name in ("filled", "filled_y")}
        for array in rows.values():
            array[n:] = 0.0
        return state | {"learned": self.learned | rows}

    def _check(self) -> None:
        indices = dict.fromkeys(("features", "next_features"), FeatureIndex)
        check_types(self, {"kinds": tuple, "labels": dict, "next_labels": dict, **indices})
        m, n_levels, y = self.record, self.learned["n_levels"], self.learned["held_y"]
        check_equal(self, m, n_inputs=len(self.features), width=len(self.next_features))
        check_equal(self, m, n_values=int((n_levels + 1).sum()))
        check_number(self, "n_filled", m.n_filled, 0, m.capacity)
        check_number(self, "n_labelled", m.n_labelled, 0, m.n_held)
        if not np.array_equal(self.learned["firsts"], _firsts(n_levels)):
            refuse(self, "firsts", self.learned["firsts"], "but the levels need other channels")
        if m.y_kind == LABEL and len(y) and not 0.0 <= y.min() <= y.max() <= max(m.n_y - 1, 0):
            refuse(self, "held_y", y, f"but there are {m.n_y} labels")

    def widened(self, new: Mapping[Hashable, float], labels: dict[Hashable, int]) -> Self:
        """Return a copy with the features of `new` and the given labels in its next reference."""
        is_collecting, filled = self.record.phase == COLLECTING, self.learned["filled"]
        copies = {k: array.copy() for k, array in self.learned.items() if is_collecting}
        features = self.next_features.with_more(new)
        copies["filled"] = np.full((len(filled), len(features)), np.nan)
        copies["filled"][:, : filled.shape[1]] = filled
        copied = self.changed(copies, next_features=features, next_labels=labels)
        copied.record.width = len(features)
        copied.vector[:] = self.vector
        return copied

    @property
    def is_filling(self) -> bool:
        """Whether the next sample is a sample of the next reference."""
        m = self.record
        is_used = m.n_samples % m.spacing == 0
        return bool(m.phase != WATCHING and is_used and m.n_filled < m.capacity)

    def renewed(self) -> Self:
        """Return a table whose reference is the next reference of this table."""
        old = self.record
        renewed = type(self)(old.bar, old.spacing, old.capacity, self.kinds)
        for name in ("v_state", "y_kind", "n_samples", "alarm_at"):
            setattr(renewed.record, name, getattr(old, name))
        renewed.features, renewed.labels = self.next_features, self.next_labels
        y = self.learned["filled_y"]
        # Samples with a y come first, because `find_near` searches only the first `n_labelled`.
        order = np.argsort(np.isnan(y), kind="stable")
        renewed._describe(self.learned["filled"][order], y[order])
        return renewed

    def _describe(self, rows: rec.Floats, y: rec.Floats) -> None:
        """Set the score functions from the samples of a reference."""
        m, (n, d), kinds = self.record, rows.shape, {*self.kinds}
        categories, is_target = self.features.category_indices, m.y_kind == TARGET
        counts = {j: Counter(rows[:, j][~np.isnan(rows[:, j])].tolist()) for j in categories}
        frequent = {j: counter.most_common(MOST_LEVELS) for j, counter in counts.items()}
        levels = [[level for level, _ in frequent.get(j, ())] for j in range(d)]
        m.phase, m.n_held, m.n_inputs, m.n_labelled = WATCHING, n, d, int((~np.isnan(y)).sum())
        m.n_values = d + sum(map(len, levels))
        m.n_dependent = min(d, MOST_DEPENDENT) if d > 1 and "inputs" in kinds else 0
        if m.n_labelled and kinds != {"inputs"}:
            m.n_y = 1 if is_target else len(self.labels) + 1
            m.n_relation = 1 + is_target if "relation" in kinds else 0
        self.learned = known = self._zeros()
        self.show()
        known["n_levels"][:] = [*map(len, levels)]
        known["firsts"][:] = _firsts(known["n_levels"])
        known["held_y"][:] = np.nan_to_num(y)
        for j, column in enumerate(rows.T):
            centre, rate, known["level_rates"][j] = _scaling(column)
            known["centres"][j], known["rates"][j] = centre, rate
            scaled = np.clip((column - centre) * rate, -LARGEST_SCALED, LARGEST_SCALED)
            known["held"][j] = column / LEAST_LEVEL - 1.0 if levels[j] else scaled
        scores = np.zeros((d + 1, n))
        score_reference(m, rec.Float64s.of(scores.ravel()))
        # Channels for dependence go to the features that neighbours predict best. An error is
        # compared with its usual size. For a category, this is the expected number of samples with
        # another level among `N_NEAR` random samples.
        errors, usual = (_mean_size(array) for array in (scores[:-1], known["held"]))
        usual[categories] = 2.0 * N_NEAR / known["level_rates"][categories] ** 2
        ratios = np.where(usual > 0.0, errors / np.maximum(usual, 1e-9), 1.0)
        known["dependent"][:] = np.sort(np.argsort(ratios, kind="stable")[: m.n_dependent])
        self._set_channels(rows, y, scores, levels)

    def _set_channels(
        self, rows: rec.Floats, y: rec.Floats, scores: rec.Floats, levels: list[list[float]]
    ) -> None:
        """Set the cuts, levels and edges of all channels, and the evidence at an alarm (`bars`)."""
        m, known, is_target = self.record, self.learned, self.record.y_kind == TARGET
        cuts, edges, relation_at = known["cuts"], known["edges"], m.relation_at()
        cuts[:] = np.pad(COUNT_CUTS, (0, N_CUTS - len(COUNT_CUTS)), constant_values=np.inf)
        edges[:] = EDGES
        columns = list(zip(rows.T, known["firsts"].tolist(), levels, strict=True))
        numbers = [] if is_target else [float(k) for k in range(m.n_y - 1)]
        columns += [(y, m.y_at(), numbers)] if m.n_y else []
        for column, first, values in columns:
            for c, level in enumerate(values, first):
                share = (column == level).sum() / (~np.isnan(column)).sum()
                # The last cell of positive size contains about the ranks of this level.
                known["levels"][c] = level
                edges[c, 1:] = [1.0 - np.clip(share, 0.005, 0.995), *[1.0] * (N_EDGES - 2)]
            cuts[first] = cuts[first] if values else cuts_of(column)
        for c, j in enumerate(known["dependent"].tolist(), m.n_values):
            cuts[c] = cuts[c] if levels[j] else cuts_of(scores[j])
        if is_target and m.n_relation:
            errors = y - scores[-1]
            known["thirds"][:] = np.nanquantile(scores[-1], [1.0 / 3.0, 2.0 / 3.0])
            third = (known["thirds"] <= scores[-1][:, np.newaxis]).sum(axis=1)
            for k in range(3):
                cuts[relation_at + k] = cuts_of(errors[third == k])
                cuts[relation_at + 3 + k] = cuts_of(np.abs(errors[third == k]))
        sizes = np.array([m.y_at(), m.n_y, m.n_relation]) * [kind in self.kinds for kind in CHANGES]
        bars = m.bar * sizes * (sizes > 0).sum()
        known["bars"][:] = np.where(sizes > 0, bars, np.inf)

    def _channels(self) -> list[tuple[int, Hashable, str]]:
        """Return each channel's kind, feature or label, and type of change (`how`)."""
        m, names, known = self.record, self.features.names, self.learned
        pairs = zip(names, known["n_levels"].tolist(), strict=True)
        channels: list[tuple[int, Hashable, str]]
        channels = [(0, name, "values") for name, n in pairs for _ in range(n + 1)]
        channels += [(0, names[j], "dependence") for j in known["dependent"].tolist()]
        channels += [*((0, name, "presence") for name in names), (0, None, "new")]
        is_target = m.y_kind == TARGET
        of_y = [(1, "target", "values")] if is_target else [(1, y, "values") for y in self.labels]
        channels += [*of_y, (1, None, "new")][: m.n_y]
        return channels + [(2, None, "")] * m.n_relation

    def report(self, is_final: bool) -> tuple[Any, ...]:
        """Return the fields of the report of the latest alarm.

        The log evidence of a report is log(R / t), because the mean of R / t is 1 after t samples
        without a change.
        """
        m, known, evidence = self.record, self.learned, self.learned["evidence"]
        starts = known["starts"][np.arange(len(evidence)), evidence.argmax(axis=1)].tolist()
        t = known["counts"][m.y_at() - 1].sum()
        with np.errstate(divide="ignore"):
            logs, bars = np.log(evidence.mean(axis=1) / t), np.log(known["bars"] / t)
        channels, order = self._channels(), np.argsort(-logs, kind="stable").tolist()
        tops: dict[int, int] = {}
        for c in order:
            tops.setdefault(channels[c][0], c)
        excess = {kind: logs[c] - bars[kind] for kind, c in tops.items()}
        kinds = sorted(excess, key=lambda kind: -excess[kind])
        # The first kind is kept even if its evidence would no longer raise an alarm, because a
        # report needs a kind.
        kinds = [kind for kind in kinds if excess[kind] >= 0.0 or kind == kinds[0]]
        new = self._new_names() if is_final else ([], [], [])
        named: tuple[dict[Hashable, int], ...] = {}, {}, {}
        for c in order:
            kind, name, how = channels[c]
            least = 0.5 * logs[tops[kind]]
            if how != "dependence":
                # A channel whose evidence reaches the bar of its kind is listed, even if another
                # channel has much more. This does not suffice for a channel of dependence, because
                # a change of one feature changes the dependence of the others.
                least = min(least, bars[kind])
            if kind in kinds and logs[c] >= max(least, 0.0):
                for item in new[kind] if how == "new" else [name]:
                    named[kind].setdefault(item, c)
        features, labels, _ = named
        return (
            int(m.alarm_at),
            starts[tops[kinds[0]]],
            tuple(CHANGES[kind] for kind in kinds),
            {name: float(logs[c]) for name, c in features.items()},
            {name: channels[c][2] for name, c in features.items()},
            {name: starts[c] for name, c in features.items()},
            {name: float(logs[c]) for name, c in labels.items()},
            is_final,
        )

    def _new_names(self) -> tuple[list[Hashable], ...]:
        """Return the most frequent new features and new labels of the next reference."""
        rows, y = self.learned["filled"], self.learned["filled_y"][: self.record.n_filled]
        present = (~np.isnan(rows[: self.record.n_filled])).sum(axis=0).tolist()
        features = zip(self.next_features.names, present, strict=True)
        labels = ((label, int((y == k).sum())) for label, k in self.next_labels.items())
        lists = []
        for counts, known in ((features, self.features.index_of), (labels, self.labels)):
            new = Counter({name: n for name, n in counts if name not in known})
            common = new.most_common(MOST_NEW_NAMES)
            lists.append([name for name, n in common if 2 * n >= common[0][1]])
        return *lists, []


def _firsts(n_levels: rec.Ints) -> rec.Ints:
    """Return the first channel of each feature; a feature has one channel more than levels."""
    firsts: rec.Ints = np.cumsum(n_levels + 1) - (n_levels + 1)
    return firsts


def _mean_size(rows: rec.Floats) -> rec.Floats:
    """Return each row's mean absolute value without NaN, or 0 for a row without values."""
    known = ~np.isnan(rows)
    totals: rec.Floats = np.where(known, np.abs(rows), 0.0).sum(axis=1, dtype=np.float64)
    return totals / np.maximum(known.sum(axis=1), 1)
