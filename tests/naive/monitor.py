"""The drift monitor by its definition, channel by channel, over dicts."""

import math
from collections import Counter

import numpy as np

CAP, N_NEAR, N_VOTES, PRIOR = 6.0, 3, 7, 4.0
KEPT = [1 - 1 / 32, 1 - 1 / 128, 1 - 1 / 1024]
EDGES = [0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0]
FEW = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 8.5, 11.5, 15.5, 22.5, 31.5, 63.5, 127.5, 255.5]


def cuts_of(scores):
    """Return cuts at 31 quantiles; a score that fills several quantiles has a separate bin."""
    scores = sorted(score for score in scores if score is not None)
    quantiles = [scores[k * len(scores) // 32] for k in range(1, 32)] if scores else []
    repeated = {q for q in quantiles if quantiles.count(q) > 1}
    return sorted({*quantiles, *(math.nextafter(q, math.inf) for q in repeated)})


def edges_of(share):
    return [0.0, 1.0 - min(max(share, 0.005), 0.995), 1.0]


class Bettor:
    """Bet on a rank by the density 1 + slope * score(p), or by a histogram over cells."""

    def __init__(self, kept, score=None, variance=1.0, least=-0.9, edges=()):
        self.kept, self.score, self.variance, self.least = kept, score, variance, least
        self.edges, self.n, self.total, self.counts = edges, 0.0, 0.0, [0.0] * len(edges)
        self.evidence, self.run, self.start = 0.0, 1.0, None

    def bet(self, p, sample):
        if self.score is None:
            cell = sum(edge <= p for edge in self.edges[1:-1])
            size = self.edges[cell + 1] - self.edges[cell]
            e = (self.counts[cell] / size + PRIOR) / (self.n + PRIOR)
        else:
            slope = self.total / (self.variance * (self.n + PRIOR))
            e = 1.0 + max(min(slope, 0.9), self.least) * self.score(p)
        self.n = self.kept * self.n + 1.0
        self.total *= self.kept
        self.counts = [self.kept * count for count in self.counts]
        if self.score is None:
            self.counts[cell] += 1.0
        else:
            self.total += self.score(p)
        self.evidence = (1.0 + self.evidence) * e
        if self.run <= 1.0:
            self.run, self.start = 1.0, sample
        self.run *= e


class Channel:
    """Rank scores within their categories, and bet on the ranks."""

    def __init__(self, cuts=FEW, edges=EDGES, is_low=False):
        self.cuts, self.scores, self.ranks = cuts, {}, []
        self.bettors = []
        for kept in KEPT:
            if is_low:
                self.bettors += [
                    Bettor(kept, lambda p: 1 - 2 * p, 1 / 3, 0.0),
                    Bettor(kept, lambda p: (p < 0.3) / 0.3 - 1, 7 / 3, 0.0),
                    Bettor(kept, lambda p: (p < 0.1) / 0.1 - 1, 9.0, 0.0),
                ]
            else:
                self.bettors += [
                    Bettor(kept, lambda p: 2 * p - 1, 1 / 3),
                    Bettor(kept, lambda p: 6 * p * p - 6 * p + 1, 1 / 5),
                    Bettor(kept, edges=edges),
                ]

    def learn(self, score, v, sample, category=None):
        cuts = self.cuts[category] if isinstance(self.cuts, dict) else self.cuts
        b = sum(cut <= score for cut in cuts)
        earlier = self.scores.setdefault(category, [])
        below, same = sum(a < b for a in earlier), sum(a == b for a in earlier)
        p = (below + v * (same + 1)) / (len(earlier) + 1)
        earlier.append(b)
        for bettor in self.bettors:
            bettor.bet(p, sample)
        self.ranks.append(p)

    @property
    def evidence(self):
        return sum(bettor.evidence for bettor in self.bettors) / len(self.bettors)


class Reference:
    """Stored samples, and the channels of later samples."""

    def __init__(self, rows, ys, names):
        self.rows, self.ys, self.names = rows, ys, names
        self.is_target = any(isinstance(y, float) for y in ys)
        self.columns = {name: [x[name] for x in rows if name in x] for name in names}
        self.levels = {
            name: [level for level, _ in Counter(column).most_common()]
            for name, column in self.columns.items()
            if isinstance(column[0], str)
        }
        self.centre, self.rate, self.channels = {}, {}, {}
        for name in names:
            column = self.columns[name]
            if name in self.levels:
                same = sum((n / len(column)) ** 2 for n in Counter(column).values())
                self.rate[name] = min(1.0 / math.sqrt(0.5 * max(1.0 - same, 1e-9)), CAP)
            else:
                self.centre[name] = np.mean(column)
                self.rate[name] = 1.0 / (np.std(column) or 1.0)
        self.held = [self.scaled(x) for x in rows]
        self.known_y = [y for y in ys if y is not None]
        self.labels = [] if self.is_target else list(dict.fromkeys(self.known_y))
        self.make_channels()

    def scaled(self, x):
        return {
            name: x[name]
            if name in self.levels
            else float(np.float32((x[name] - self.centre[name]) * self.rate[name]))
            for name in self.names
            if name in x
        }

    def term(self, x, y, name):
        if name not in x or name not in y:
            return float((name in x) != (name in y))
        if name in self.levels:
            return (x[name] != y[name]) * self.rate[name]
        return min(abs(x[name] - y[name]), CAP)

    def nearest(self, x, n, skipped, without=None, has=None, needs_y=False):
        """Return the stored samples that are nearest in all features except `without`."""
        found = []
        for i, y in enumerate(self.held):
            if i != skipped and (has is None or has in y) and not (needs_y and self.ys[i] is None):
                terms = {name: self.term(x, y, name) for name in self.names}
                # Distances are rounded as in the kernel, so ties are the same.
                distance = sum(terms.values()) - terms.get(without, 0.0)
                found.append((distance, self.ys[i] is None, i))
        return [i for *_, i in sorted(found)[:n]]

    def dependence(self, x, name, skipped=None):
        near = self.nearest(x, N_NEAR, skipped, without=name, has=name)
        if name not in x or len(near) < N_NEAR:
            return None
        if name in self.levels:
            return sum(self.held[i][name] != x[name] for i in near)
        return x[name] - sum(self.held[i][name] for i in near) / N_NEAR

    def votes(self, x, skipped=None):
        return [self.ys[i] for i in self.nearest(x, N_VOTES, skipped, needs_y=True)]

    def make_channels(self):
        n = len(self.rows)
        for name in self.names:
            column = self.columns[name]
            for level in self.levels.get(name, []):
                share = column.count(level) / len(column)
                self.channels[name, level] = Channel(edges=edges_of(share))
            is_category = name in self.levels
            self.channels[name, "values"] = Channel(FEW if is_category else cuts_of(column))
        for name in self.names:
            scores = [self.dependence(self.held[i], name, i) for i in range(n)]
            cuts = FEW if name in self.levels else cuts_of(scores)
            self.channels[name, "dependence"] = Channel(cuts)
        for name in self.names:
            self.channels[name, "presence"] = Channel()
        self.channels["new"] = Channel()
        if self.is_target:
            self.channels["y", "values"] = Channel(cuts_of(self.known_y))
            labelled = [i for i in range(n) if self.ys[i] is not None]
            means = [np.mean(self.votes(x, i)) for i, x in enumerate(self.held)]
            self.thirds = np.quantile(means, [1 / 3, 2 / 3])
            errors = {k: [] for k in range(3)}
            for i in labelled:
                errors[self.third(means[i])].append(self.ys[i] - means[i])
            self.channels["error"] = Channel({k: cuts_of(own) for k, own in errors.items()})
            sizes = {k: cuts_of([abs(e) for e in own]) for k, own in errors.items()}
            self.channels["size of the error"] = Channel(sizes)
        elif self.labels:
            for label in self.labels:
                share = self.known_y.count(label) / len(self.known_y)
                self.channels["y", label] = Channel(edges=edges_of(share))
            self.channels["y", "other"] = Channel()
            self.channels["votes"] = Channel(is_low=True)

    def third(self, mean):
        return sum(cut <= mean for cut in self.thirds)

    def learn(self, x, y, v, sample):
        """Learn a sample with the uniform number `v`."""
        new = [name for name in x if name not in self.names]
        z = self.scaled(x)
        for name in self.names:
            self.channels[name, "presence"].learn(name in x, v, sample)
            if name not in x:
                continue
            for level in self.levels.get(name, []):
                self.channels[name, level].learn(x[name] == level, v, sample)
            is_other = x[name] not in self.levels.get(name, [])
            value = is_other if name in self.levels else x[name]
            self.channels[name, "values"].learn(value, v, sample)
            score = self.dependence(z, name)
            if score is not None:
                self.channels[name, "dependence"].learn(score, v, sample)
        self.channels["new"].learn(len(new), v, sample)
        if y is not None and self.known_y:
            self.learn_y(z, y, v, sample)

    def learn_y(self, z, y, v, sample):
        votes = self.votes(z)
        if self.is_target:
            mean = np.mean(votes)
            self.channels["y", "values"].learn(y, v, sample)
            self.channels["error"].learn(y - mean, v, sample, self.third(mean))
            self.channels["size of the error"].learn(abs(y - mean), v, sample, self.third(mean))
            return
        for label in self.labels:
            self.channels["y", label].learn(y == label, v, sample)
        self.channels["y", "other"].learn(y not in self.labels, v, sample)
        if y in self.labels:
            # The most frequent vote. Among equally frequent votes, the nearest sample decides.
            usual = max(votes, key=votes.count)
            self.channels["votes"].learn(votes.count(y), v, sample, usual)
