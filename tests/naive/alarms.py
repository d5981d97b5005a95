"""Alarms, written from the description of `river_mondrian.Alarms`, with all samples stored."""

import itertools
import math


class NaiveAlarms:
    """Alarms over a detector whose score is the feature "score"."""

    threshold, average, window, rest = 0.997, 40, 8192, 100
    tolerance, grace_period, budget = 0.05, 100, None
    # Number of means of an ended incident that are ranked. Largest share of removed means with
    # which dismissed means are removed.
    most, largest_share = 12, 0.2

    def __init__(self, calendar, **arguments):
        self.calendar = calendar
        vars(self).update(arguments)
        self.samples, self.excesses, self.means, self.alarms = [], [], [], []
        # For each alarm, its incident: the first sample, the last sample or None while it runs, and
        # whether averages have reached the threshold. The numbers of answered incidents.
        self.incidents, self.confirmed, self.dismissed = [], set(), set()
        # For each alarm, the number of its incident. Other incidents have no alarm.
        self.raised = []
        # The sample that began the latest incident.
        self.latest = 0
        # For each sample, the silent features. The silent features whose alarm is postponed.
        self.silences, self.postponed = [], []

    def is_in(self, answered, number, running=math.inf):
        """Return whether an answered incident has a sample; running incidents end at `running`."""
        return any(
            first <= number <= (running if last is None else last)
            for i, (first, last, _) in enumerate(self.incidents)
            if i in answered
        )

    def is_removed(self, number, running=math.inf):
        """Return whether a confirmed incident has a sample."""
        return self.is_in(self.confirmed, number, running)

    def is_ranked(self, number):
        """Return whether the mean at a sample is ranked."""
        return self.means[number - 1] is not None and not self.is_removed(number)

    def room(self, n):
        """Return how many dismissed means may be removed, if there are `n` samples."""
        latest = range(1 + max(0, len(self.samples) - self.window), len(self.samples) + 1)
        n_removed = sum(not self.is_ranked(i) for i in latest)
        return int(self.largest_share * min(n, self.window) - n_removed)

    def surprises(self, x):
        """Return the latest surprises, beginning with the next sample's."""
        latest = [*self.samples, x][-self.average :]
        return [-math.log(1.0 - one["score"]) for one in latest][::-1]

    def mean(self, x):
        found = self.surprises(x)
        return math.fsum(found) / len(found)

    def began(self, x):
        sums = [*itertools.accumulate(one - 1.0 for one in self.surprises(x))]
        return len(self.samples) + 1 - sums.index(max(sums))

    def values(self, name):
        """Return the values of a feature that have not been removed."""
        if not self.confirmed:
            return [x[name] for x in self.samples if name in x]
        numbered = enumerate(self.samples, 1)
        return [x[name] for n, x in numbered if name in x and not self.is_removed(n, 0)]

    def excess(self, x):
        most = 0.0
        for name, value in x.items():
            before = self.values(name)
            if name in self.calendar or not before:
                continue
            low, high, size = min(before), max(before), self.size(name, before)
            beyond = max(value - high, low - value)
            width = max(high - low, size)
            if beyond > 0.0:
                most = max(most, beyond / width if width > 0.0 else math.inf)
        return most if most >= self.tolerance else 0.0

    def size(self, name, before):
        """Return the largest absolute value if most values equal the value before, else 0."""
        values = [x[name] for x in self.samples if name in x]
        changes = sum(a != b for a, b in itertools.pairwise(values))
        return max(map(abs, before)) if 2 * changes < len(values) else 0.0

    def is_flat(self, x):
        known = {name: self.values(name) for name in x if name not in self.calendar}
        return bool(known) and all(
            max(*before, x[name]) - min(*before, x[name]) < self.tolerance * self.size(name, before)
            for name, before in known.items()
            if before
        )

    def silent(self, x):
        """Return the features that usually have a value, and have none in `average` samples.

        Only the first of these samples counts, unless the alarm is postponed.
        """
        found = []
        for name in {name for one in self.samples for name in one} - x.keys():
            has_value = [name in one for one in [*self.samples, x]]
            is_first = not any(has_value[-self.average :]) and has_value[-self.average - 1]
            if not is_first and name not in self.postponed:
                continue
            share = 0.0
            older = zip(has_value, self.silences[self.average :], strict=False)
            for n, (one, silent) in enumerate(older, 1):
                share += 0.0 if name in silent else (one - share) / min(n, self.window)
            if share >= 0.95:
                found.append(name)
        return found

    def rank(self, x, stop=math.inf):
        """Return the rank of the average among earlier averages before the number `stop`.

        Removed averages are left out.
        """
        n, mean = len(self.samples), self.mean(x)
        latest = range(1 + max(0, n - self.window), n + 1)
        means = [self.means[i - 1] for i in latest if i < stop and self.is_ranked(i)]
        return 1.0 - (1 + sum(m >= mean - 1e-12 for m in means)) / (1 + len(means))

    def is_novel(self, excess):
        """Return whether an excess is large and rare."""
        latest = enumerate(
            self.excesses[-self.window :], 1 + max(0, len(self.samples) - self.window)
        )
        as_novel = sum(one >= excess and not self.is_removed(i) for i, one in latest if one > 0.0)
        return excess > 0.0 and as_novel <= (1.0 - self.threshold) * self.window

    def is_barred(self):
        number = len(self.samples) + 1
        if number <= self.grace_period:
            return True
        limit, length = self.budget or (1, 0)
        return sum(number - alarm < length for alarm in self.alarms) >= limit

    def score(self, x):
        n = len(self.samples)
        number = n + 1
        if self.is_barred():
            return 0.0
        if self.silent(x):
            return 1.0
        if self.is_novel(self.excess(x)):
            return 1.0
        if any(self.incidents[i][1] is None for i in self.confirmed):
            return 0.0
        if self.is_flat(x) or (self.alarms and number <= self.alarms[-1] + self.rest):
            return 0.0
        return self.rank(x)

    def learn(self, x):
        n = len(self.samples)
        began = min([first for first, last, _ in self.incidents if last is None], default=math.inf)
        is_high, excess, mean = self.rank(x, began) >= self.threshold, self.excess(x), self.mean(x)
        silences, is_barred, room = self.silent(x), self.is_barred(), self.room(n + 1)
        is_alarm, ended = self.score(x) >= self.threshold, []
        is_incident = is_alarm or (
            n >= self.grace_period
            and all(last is not None for _, last, _ in self.incidents)
            and (self.is_novel(excess) or (not self.is_flat(x) and self.rank(x) >= self.threshold))
        )
        for i, (first, last, has_risen) in enumerate(self.incidents):
            if last is None:
                is_late = n + 1 >= self.latest + self.average
                is_over = not is_high and (has_risen or is_late)
                self.incidents[i] = first, n if is_over else None, has_risen or is_high
                if is_over and i not in self.confirmed | self.dismissed:
                    ended.append(first)
        if is_alarm:
            self.alarms.append(n + 1)
            self.raised.append(len(self.incidents))
        if is_incident:
            self.latest = n + 1
            ends = [last for _, last, _ in self.incidents if last is not None]
            silent = n + 2 - self.average if silences else None
            first = max(silent or self.began(x), 1 + max(ends, default=0))
            self.incidents.append((first, None, is_high))
        self.excesses.append(excess)
        if self.window <= n < 2 * self.window and self.is_ranked(n + 1 - self.window):
            mean = max(mean, self.means[-self.window])
        self.means.append(mean)
        for first in ended:
            part = slice(max(first - 1, n + 1 - self.window), n)
            means = sorted([m for m in self.means[part] if m is not None], reverse=True)
            kept = means[: self.most]
            self.means[part] = [*kept, *[None] * (part.stop - part.start - len(kept))]
        if room > 0 and any(self.incidents[i][1] is None for i in self.dismissed):
            self.means[n] = None
        self.silences.append(silences)
        self.postponed = silences if is_barred else []
        self.samples.append(x)

    def confirm(self, i):
        self.confirmed.add(self.raised[i])

    def dismiss(self, i):
        first, last, _ = self.incidents[self.raised[i]]
        n = len(self.samples)
        last = min(n if last is None else last, first - 1 + max(self.room(n), 0))
        self.means[first - 1 : last] = [None] * (last + 1 - first)
        self.dismissed.add(self.raised[i])


def is_near(samples, surprises, dismissed, widths, usual):
    """Return whether the samples of an alarm are near to dismissed samples.

    Only samples whose surprise is at least the mean surprise are compared. `usual` is the distance
    of usual samples.
    """

    def distance(x, y):
        terms = [abs(x[name] - y[name]) / width for name, width in widths.items()]
        return sum(term if term <= 10.0 else 10.0 * (1.0 + math.log(term / 10.0)) for term in terms)

    mean = math.fsum(surprises) / len(surprises)
    compared = [x for x, s in zip(samples, surprises, strict=True) if s >= mean - 1e-12]
    nearest = [min(distance(x, y) for y in dismissed) for x in compared]
    return math.fsum(nearest) / len(nearest) <= usual
