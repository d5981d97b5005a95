"""The schedule of a forest's trees: existing trees, and trees to be built.

A schedule is replaced, never changed. The replacement is one assignment, so after an interrupted
call either the old or the new schedule is valid.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...checks import LARGEST_SIZE, ModelFormatError, check_number, refuse
from ...partitions.mondrian.constants import NEVER
from ...partitions.mondrian.tree_store import WARM_UP
from .forest import GATHERING, IDLE, LONG, RECENT, RebuiltForest

# Default number of samples of the recent trees.
RECENT_SAMPLES = 1000

# A build continues at every sample whose number is a multiple of this number.
BUILD_EVERY = 4

# Least value of `Schedule.max_samples`, even if the memory is limited.
LEAST_WINDOW = 512


class Schedule(NamedTuple):
    """Roles of trees, the window of samples, and the trees to be built."""

    # Number of trees of all samples, and of recent trees.
    n_long: int
    n_recent: int
    # Number of samples at which the window is halved, and largest number of stored samples. Samples
    # before the window are stored until all trees have been rebuilt without these samples.
    max_samples: int
    capacity: int
    # The slot of the spare tree, where the next tree is built.
    slot: int
    # For each tree: the number of samples at the tree's build, and the tree's first sample (NEVER
    # without samples).
    ages: tuple[int, ...]
    starts: tuple[int, ...]
    # For each tree: its role. A tree that is being built gets a role when the tree is complete.
    roles: tuple[int, ...]
    # The future role of the tree that is being built, or IDLE.
    role: int = IDLE
    # First sample of the window, and the number of samples when the last rebuild of all LONG trees
    # was scheduled.
    first: int = 0
    built_at: int = 0
    # Roles of the trees to be built, in order.
    jobs: tuple[int, ...] = ()
    # LONG trees that are rebuilt before any other work.
    at_once: tuple[int, ...] = ()
    # Number of samples of the recent trees.
    recent_samples: int = RECENT_SAMPLES

    @classmethod
    def at_first(
        cls, n_long: int, n_recent: int, max_samples: int, recent_samples: int = RECENT_SAMPLES
    ) -> Schedule:
        """Return the schedule before the first sample."""
        n_others = n_recent + 1
        none = (0,) * (n_long + n_others)
        return cls(
            n_long=n_long,
            n_recent=n_recent,
            max_samples=max_samples,
            capacity=2 * max_samples,
            slot=n_long + n_recent,
            ages=none,
            starts=none,
            roles=(LONG,) * n_long + (IDLE,) * n_others,
            recent_samples=recent_samples,
        )

    # State.

    def stored(self) -> dict[str, Any]:
        """Return the state without the roles, which are in the trees' records."""
        state = self._asdict()
        for name in NOT_STORED:
            del state[name]
        state["jobs"] = deque(self.jobs)
        state["ages"], state["starts"] = np.array(self.ages), np.array(self.starts)
        return state

    @classmethod
    def restored(
        cls, state: Mapping[str, Any], roles: list[int], recent_samples: int = RECENT_SAMPLES
    ) -> Schedule:
        """Return the schedule with a stored state and the trees' `roles`."""
        values = dict(state)
        for name in ("ages", "starts"):
            if np.shape(values[name]) != (len(roles),):
                raise ModelFormatError(
                    f"{name} of the trees has the shape {np.shape(values[name])} "
                    f"instead of {(len(roles),)}"
                )
            values[name] = tuple(values[name].tolist())
        values["jobs"] = tuple(values["jobs"])
        kept = tuple(role if role in (LONG, RECENT) else IDLE for role in roles)
        return cls(**values, roles=kept, recent_samples=recent_samples)

    def check(self, forest: RebuiltForest, roles: list[int]) -> None:
        """Check that a restored schedule fits the forest and the roles of the trees.

        Raises
        ------
        ModelFormatError
            If a number is out of range, or roles of trees are impossible.

        """
        n_trees, n, capacity = len(roles), int(forest.n_samples), self.capacity
        first = max(0, n - capacity)
        # Least first sample of the window. If the window began earlier, new samples could replace
        # samples of the window.
        first_kept = max(0, n - self.max_samples - BUILD_EVERY)
        for name, value, least, most in (
            ("capacity", capacity, forest.window_capacity, forest.window_capacity),
            ("n_points", forest.n_points, min(n, capacity), min(n, capacity)),
            ("max_samples", self.max_samples, LEAST_WINDOW, capacity // 2),
            ("first", self.first, first_kept, n),
            ("built_at", self.built_at, 0, n),
            ("n_long", self.n_long, 1, n_trees - 1),
            ("n_recent", self.n_recent, n_trees - 1 - self.n_long, n_trees - 1 - self.n_long),
            ("slot", self.slot, 0, n_trees - 1),
            ("the number of LONG trees", roles.count(LONG), self.n_long, self.n_long),
            ("the number of RECENT trees", roles.count(RECENT), 0, self.n_recent),
            ("cursor", forest.build.cursor, 0, LARGEST_SIZE),
            *(("ages", age, 0, n) for age in self.ages),
            *(("starts", start, 0, NEVER) for start in self.starts),
            *(
                ("starts", start, first, n)
                for start, role in zip(self.starts, roles, strict=True)
                if role != IDLE
            ),
        ):
            check_number("the schedule", name, value, least, most)
        if not {self.role, *self.jobs} <= {IDLE, LONG, RECENT} or IDLE in self.jobs:
            refuse("the schedule", "role", self.role, "but only LONG and RECENT trees can be built")
        built = [t for t, role in enumerate(roles) if role >= GATHERING]
        slots = [] if self.role == IDLE else [self.slot]
        if built != slots or roles[self.slot] in (LONG, RECENT):
            refuse("the schedule", "slot", self.slot, f"but the trees have the roles {roles}")
        if built:
            start = self.starts[self.slot]
            check_number("the schedule", "built_from", forest.build.first, start, start)
            check_number("the schedule", "cursor", forest.build.cursor, start, n)

    # The current trees.

    def of_role(self, role: int) -> list[int]:
        """Return the trees of a role."""
        return [t for t, tree_role in enumerate(self.roles) if tree_role == role]

    def oldest(self, role: int) -> int:
        """Return the tree of a role that was built first."""
        return min(self.of_role(role), key=lambda t: self.ages[t])

    @property
    def being_built(self) -> int:
        """The first tree of `at_once`, otherwise the tree that is being built, otherwise -1."""
        if self.at_once:
            return self.at_once[0]
        return -1 if self.role == IDLE else self.slot

    # The next schedule.

    def rebuilding_long_now(self, n: int) -> Schedule:
        """Return a schedule that rebuilds all LONG trees before other work, after `n` samples."""
        at_once = self.of_role(LONG)
        return self._replace(
            role=IDLE,
            built_at=n,
            jobs=(),
            at_once=tuple(at_once),
            starts=_put(self.starts, at_once, self.first),
        )

    def without(self, last: int) -> Schedule:
        """Return a schedule in which no tree contains the sample `last` or earlier samples."""
        if last < min(self.starts):
            return self
        # The current build is postponed, since only one tree can be built at a time.
        jobs = self.jobs if self.role == IDLE else (self.role, *self.jobs)
        late = [t for t, start in enumerate(self.starts) if start <= last]
        at_once = [t for t in late if self.roles[t] == LONG]
        given_up = [t for t in late if self.roles[t] != LONG]
        starts = _put(self.starts, at_once, self.first)
        return self._replace(
            role=IDLE,
            jobs=jobs,
            at_once=tuple(at_once),
            starts=_put(starts, given_up, NEVER),
            roles=_put(self.roles, given_up, IDLE),
        )

    def forgetting(self, n: int, kept: int) -> Schedule:
        """Return a schedule that rebuilds all LONG trees from the latest `kept` of `n` samples.

        Recent trees that contain earlier samples are dropped.
        """
        first = max(self.first, n - kept)
        late = [t for t in self.of_role(RECENT) if self.starts[t] < first]
        return self._replace(
            first=first,
            built_at=n,
            jobs=(LONG,) * self.n_long,
            role=IDLE if self.starts[self.slot] < first else self.role,
            roles=_put(self.roles, late, IDLE),
        )

    def planned(self, n: int) -> Schedule:
        """Return a schedule with the trees that are due to be rebuilt after `n` samples.

        LONG trees are due if the window is full, or has doubled since their last rebuild was
        scheduled. Recent trees are due in turn, if the window is longer than `recent_samples`.
        Planning the returned schedule again for the same `n` does not change the schedule.
        """
        planned, n_held = self, n - self.first
        if n_held >= self.max_samples:
            planned = self.forgetting(n, self.max_samples // 2)
        elif n_held >= 2 * max(self.built_at - self.first, WARM_UP // 2):
            planned = self._replace(built_at=n, jobs=self.jobs + (LONG,) * self.n_long)
        # Recent trees are rebuilt in turn, at equal intervals.
        since = n * self.n_recent % self.recent_samples
        due = since < BUILD_EVERY * self.n_recent and n_held > self.recent_samples
        if due and RECENT not in planned.jobs:
            # Recent trees are built first, since a tree would no longer be recent after the builds
            # of large trees.
            planned = planned._replace(jobs=(RECENT, *planned.jobs))
        return planned

    def plan_from(self, n: int) -> int:
        """Return the least number of samples at which planning may be needed, given `n` samples.

        If a build is running or scheduled, the result is `n`.
        """
        if self.jobs or self.role != IDLE:
            return n
        doubled = self.first + 2 * max(self.built_at - self.first, WARM_UP // 2)
        planned_at = min(self.first + self.max_samples, doubled)
        if self.n_recent > 0:
            # Number of samples at the next build of a recent tree.
            start = max(n, self.first + self.recent_samples) + 1
            since = start * self.n_recent % self.recent_samples
            if since >= BUILD_EVERY * self.n_recent:
                start += -(-(self.recent_samples - since) // self.n_recent)
            planned_at = min(planned_at, start)
        return planned_at

    def rebuilding_in_turn(self, n: int) -> Schedule:
        """Return a schedule that rebuilds all trees one after another, after `n` samples."""
        jobs = (LONG,) * self.n_long + (RECENT,) * len(self.of_role(RECENT))
        return self._replace(built_at=n, jobs=jobs)

    def next_job(self, n: int) -> Schedule:
        """Return a schedule that builds the next tree, after `n` samples."""
        role, *jobs = self.jobs
        first = max(self.first, n - self.recent_samples) if role == RECENT else self.first
        starts = _put(self.starts, [self.slot], first)
        return self._replace(role=role, jobs=tuple(jobs), starts=starts)

    def placed(self, n: int) -> Schedule:
        """Return a schedule in which the built tree replaces the oldest tree of the same role.

        If there are fewer trees of this role than planned, no tree is replaced.
        """
        same, slot = self.of_role(self.role), self.slot
        roles = _put(self.roles, [slot], self.role)
        if len(same) < (self.n_long if self.role == LONG else self.n_recent):
            following = roles.index(IDLE)
        else:
            following = self.oldest(self.role)
        return self._replace(
            slot=following,
            role=IDLE,
            ages=_put(self.ages, [slot], n),
            roles=_put(roles, [following], IDLE),
        )


# Fields that are not stored, since `RebuiltTrees` or the trees' records contain their values.
NOT_STORED = ("roles", "at_once", "recent_samples")
STORED = tuple(name for name in Schedule._fields if name not in NOT_STORED)


def _put(values: tuple[int, ...], indices: list[int], value: int) -> tuple[int, ...]:
    """Return a copy of `values` with `value` at the indices `indices`."""
    return tuple(value if i in indices else old for i, old in enumerate(values))
