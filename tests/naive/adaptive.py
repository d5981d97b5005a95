"""The adaptive forest in plain Python: statistics along paths, their weightings, Gini gains."""

import math

DECAYS = (1.0, 0.95, 0.7)
PRIORS = (0.5, 0.05)
STOP_PRIORS = (0.5, 0.1)
SHARE_RATE = 0.02
LEAST_STOP = 1e-4


def route(nodes, x):
    """Return the numbers of the nodes on a sample's way down a tree."""
    path = [0]
    while not nodes[path[-1]].is_leaf:
        node = nodes[path[-1]]
        path.append(node.left if x[node.dim] <= node.cut else node.right)
    return path


class Statistics:
    """What a node has seen: decayed counts, shares of the memories, stop probabilities."""

    def __init__(self, n_classes):
        self.counts = [[0.0] * n_classes for _ in DECAYS]
        self.shares = [1.0 / len(DECAYS)] * len(DECAYS)
        self.stops = list(STOP_PRIORS)

    def memory(self, m, alpha):
        total = sum(self.counts[m]) + alpha * len(self.counts[m])
        return [(count + alpha) / total for count in self.counts[m]]

    def estimate(self, v):
        """Return the node's own distribution in a weighting; the last mixes the memories."""
        if v < 1:
            return self.memory(0, PRIORS[v])
        own = [self.memory(m, PRIORS[v]) for m in range(len(DECAYS))]
        return [
            sum(s * p for s, p in zip(self.shares, column, strict=True))
            for column in zip(*own, strict=True)
        ]

    def see(self, label, forgets, weight=1.0):
        for m, decay in enumerate(DECAYS):
            if forgets:
                self.counts[m] = [decay * count for count in self.counts[m]]
            self.counts[m][label] += weight

    def weigh(self, label, weight=1.0):
        chances = [self.memory(m, PRIORS[1])[label] for m in range(len(DECAYS))]
        chances = to_power(chances, weight)
        total = sum(s * c for s, c in zip(self.shares, chances, strict=True))
        n = len(DECAYS)
        self.shares = [
            (1.0 - SHARE_RATE) * s * c / total + SHARE_RATE / n
            for s, c in zip(self.shares, chances, strict=True)
        ]


def predict(nodes, seen, x, v):
    """Return a weighting's distribution: each node's own or its child's, by its stop weight."""
    path = route(nodes, x)
    found = seen[path[-1]].estimate(v)
    for number in reversed(path[:-1]):
        stop = seen[number].stops[v]
        own = seen[number].estimate(v)
        found = [stop * a + (1.0 - stop) * b for a, b in zip(own, found, strict=True)]
    return found


def to_power(chances, weight):
    """Return numbers to a power but for a common factor, since they may be too small."""
    return [(chance / max(chances)) ** weight for chance in chances]


def learn(nodes, seen, x, label, root_forgets=False, weight=1.0):
    """Let the nodes on a sample's way learn from it: weights first, then counts.

    The loss of a sample counts as often as its weight says. `below` has logarithms.
    """
    path = route(nodes, x)
    below = [weight * math.log(seen[path[-1]].estimate(v)[label]) for v in range(2)]
    seen[path[-1]].weigh(label, weight)
    for number in reversed(path[:-1]):
        node = seen[number]
        for v in range(2):
            own = weight * math.log(node.estimate(v)[label])
            # Of the logarithms, that of the sum, and the first's part of that.
            parts = math.log(node.stops[v]) + own, math.log1p(-node.stops[v]) + below[v]
            below[v] = max(parts) + math.log1p(math.exp(min(parts) - max(parts)))
            node.stops[v] = min(max(math.exp(parts[0] - below[v]), LEAST_STOP), 1.0 - LEAST_STOP)
        node.weigh(label, weight)
    for depth, number in enumerate(path):
        seen[number].see(label, depth > 0 or root_forgets, weight)


def replay(nodes, X, labels, n_classes, root_forgets=False, weights=None):
    """Return what each node has seen once all samples have come in order."""
    seen = [Statistics(n_classes) for _ in nodes]
    for i, (x, label) in enumerate(zip(X, labels, strict=True)):
        learn(nodes, seen, x, label, root_forgets, 1.0 if weights is None else weights[i])
    return seen


def hnsp_counts(nodes, seen):
    """Return c of Algorithm 5 for each node."""
    found = []
    for number, node in enumerate(nodes):
        own = seen[number].counts[0]
        if node.is_leaf:
            found.append(own)
            continue
        children = (seen[node.left].counts[0], seen[node.right].counts[0])
        found.append([min(a, 1.0) + min(b, 1.0) for a, b in zip(*children, strict=True)])
    return found


def gini(weighted):
    """Return the weight of pairs of class and weight, times their Gini impurity."""
    n = sum(weight for _, weight in weighted)
    of_class = [sum(w for k, w in weighted if k == label) for label in {k for k, _ in weighted}]
    return n * (1.0 - sum((weight / n) ** 2 for weight in of_class)) if n else 0.0


def gain(values, labels, cut, weights=None):
    """Return the decrease of n times the Gini impurity by a cut, n being the weight."""
    pairs = list(zip(labels, weights or [1.0] * len(labels), strict=True))
    left = [pair for v, pair in zip(values, pairs, strict=True) if v <= cut]
    right = [pair for v, pair in zip(values, pairs, strict=True) if v > cut]
    return gini(pairs) - gini(left) - gini(right)


class Mixture:
    """Experts in a log-linear pool."""

    def __init__(self, n, floor, step, first, largest):
        self.floor, self.step, self.first, self.largest = floor, step, first, largest
        self.exponents = [1.0 / n] * n
        self.squares = [first] * n
        self.heaviest = 1.0

    def follow_drift(self):
        self.squares = [self.first] * len(self.squares)

    def predict(self, experts):
        n_classes = len(experts[0])
        floored = [[max(p, self.floor / n_classes) for p in expert] for expert in experts]
        self.experts = [[p / sum(expert) for p in expert] for expert in floored]
        pooled = [
            math.prod(p**e for e, p in zip(self.exponents, column, strict=True))
            for column in zip(*self.experts, strict=True)
        ]
        self.pool = [p / sum(pooled) for p in pooled]
        return self.pool

    def learn(self, label, weight=1.0):
        # Gradients are in units of the largest weight of late.
        self.heaviest = max(weight, 1.0, 0.999 * self.heaviest)
        for e, expert in enumerate(self.experts):
            logs = [math.log(p) for p in expert]
            gradient = sum(p * log for p, log in zip(self.pool, logs, strict=True)) - logs[label]
            gradient *= weight / self.heaviest
            self.squares[e] += gradient**2
            moved = self.exponents[e] - self.step * gradient / math.sqrt(self.squares[e])
            self.exponents[e] = min(max(moved, -1.0), self.largest)
