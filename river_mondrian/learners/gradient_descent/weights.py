"""The Python part of gradient descent: the loss, the learning rate and the owner of the weights."""

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import optim

from ...arguments import is_real
from ...checks import LARGEST_SIZE, check_array, check_arrays, check_number, check_types, refuse
from ...limits import DONE, NO_ROOM
from ...maps.record import CompiledMap, Outputs, Pool, Sample, outputs_of
from ...records import FLOAT64, ChunkedRows, Float64s, Floats, Int32s, Memory, RowLayout, Section
from ...records.memory import TableState, grown, owned
from ..ridge.posterior import Weights
from . import learning
from .descent import DescentWeightsRecord, Loss, Slot

# River's losses that have kernels. For each: the kernels' loss, and the names of its parameters in
# `DescentWeightsRecord` and in River.
NATIVE: dict[type[optim.losses.Loss], tuple[Loss, dict[str, str]]] = {
    optim.losses.Hinge: (Loss.HINGE, {"margin": "threshold"}),
    optim.losses.Log: (
        Loss.LOG,
        {"positive_weight": "weight_pos", "negative_weight": "weight_neg"},
    ),
    optim.losses.Squared: (Loss.SQUARED, {}),
    optim.losses.EpsilonInsensitiveHinge: (Loss.EPSILON_INSENSITIVE, {"margin": "eps"}),
    optim.losses.Huber: (Loss.HUBER, {"margin": "epsilon"}),
}

# Arrays with an element per word.
WORD_ARRAYS = {"word_slots": np.int32} | dict.fromkeys(
    ("word_factors", "word_squares", "word_counts"), np.float64
)


class Rule:
    """A loss and a learning rate.

    Parameters
    ----------
    loss
        One of River's losses.
    learning_rate
        A number, River's SGD or AdaGrad, or one of River's schedulers.
    softmax
        Whether the loss of several scores is the cross-entropy of their softmax.

    """

    def __init__(self, loss: Any, learning_rate: Any, softmax: bool) -> None:
        self.loss, self.learning_rate = copy.deepcopy(loss), copy.deepcopy(learning_rate)
        self.softmax = softmax
        self._read()

    def _read(self) -> None:
        """Set the attributes that depend on the arguments."""
        self.native, rate = type(self.loss) in NATIVE, self.learning_rate
        self.adaptive = isinstance(rate, optim.AdaGrad)
        self.eps = float(rate.eps) if self.adaptive else 0.0
        if isinstance(rate, optim.base.Optimizer):
            if type(rate) not in (optim.SGD, optim.AdaGrad):
                raise ValueError(
                    "of River's optimizers, learning_rate may be SGD or AdaGrad, "
                    f"got {type(rate).__name__}"
                )
            rate = rate.lr
        if isinstance(rate, optim.schedulers.Constant):
            rate = rate.learning_rate
        self.schedule: optim.base.Scheduler | None = None
        if isinstance(rate, optim.base.Scheduler):
            self.schedule, rate = rate, 0.0
        elif not (is_real(rate) and 0.0 < rate < math.inf):
            raise ValueError(
                "learning_rate must be a finite number > 0, or a scheduler, SGD or AdaGrad from "
                f"River, got {self.learning_rate!r}"
            )
        self.rate = float(rate)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("loss", "learning_rate", "softmax")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        check_types(self, {"loss": optim.losses.Loss, "learning_rate": object, "softmax": bool})
        self._read()

    def rate_at(self, step: int) -> float:
        """Return the learning rate after `step` steps."""
        return self.rate if self.schedule is None else float(self.schedule.get(step))

    def write(self, learner: DescentWeightsRecord) -> None:
        """Write the loss and AdaGrad's settings to a learner's record."""
        has_words, n_classes = bool(learner.has_words), max(2, learner.n_scores)
        learner.is_adaptive = int(self.adaptive and not has_words)
        learner.is_adaptive_by_column = int(self.adaptive and has_words)
        learner.eps = self.eps
        # With n classes, the initial log loss is log(n), and scores have to become larger than with
        # two classes. So the rate grows with n.
        learner.rate_of_words = math.log2(n_classes) if self.adaptive else 1.0
        if learner.n_scores > 1 and self.softmax:
            learner.loss = Loss.SOFTMAX
        elif not self.native:
            learner.loss = Loss.FOREIGN
        else:
            learner.loss, fields = NATIVE[type(self.loss)]
            for field, attribute in fields.items():
                setattr(learner, field, float(getattr(self.loss, attribute)))


class DescentWeights(Weights):
    """Weights for the columns of a compiled map.

    Parameters
    ----------
    rule
        The loss and the learning rate.
    compiled
        The map.
    n_scores
        Initial number of scores.
    has_words
        Whether each feature also has weights as a word, in addition to the columns of a cell map.

    """

    # Compiled kernels, stored at their first use, because a look-up at each call is slow. A cached
    # property would read `__dict__`, which slows down each access to an attribute.
    _learn_one: Callable[..., int] | None = None
    _score_one: Callable[..., tuple[int, int]] | None = None
    # Attributes that `add_classes` changes.
    _IN_SNAPSHOT = ("chunked_rows", "_shown", "scores", "gradients", "memory", "_in_kernel")
    _BORROWED = frozenset({"compiled", "_shown"})

    def __init__(
        self, rule: Rule, compiled: CompiledMap, n_scores: int, has_words: bool = False
    ) -> None:
        self.rule, self.compiled, self.has_words = rule, compiled, has_words
        self.memory = Memory(DescentWeightsRecord)
        self.memory[0].n_scores = n_scores
        # Columns without weights have slot 0.
        self.chunked_rows = ChunkedRows(1, self._slot_layout().words)
        self.chunked_rows.reserve(0, 1)
        shares = np.full(compiled.n_lifetimes, 1.0 / compiled.n_lifetimes)
        self._bind(np.zeros(1, dtype=np.int32), shares, 1)
        if has_words:
            words = {name: np.zeros(0, kind) for name, kind in WORD_ARRAYS.items()}
            self._bind_words(words | {"column_squares": np.zeros(compiled.n_columns)})

    @property
    def _stride(self) -> int:
        """Number of elements of a slot per score."""
        return 2 if self.rule.adaptive and not self.has_words else 1

    def _slot_layout(self) -> RowLayout:
        """Return the layout of a slot's row."""
        n_scores = self.memory[0].n_scores
        names = ("weights", "squares") if self._stride == 2 else ("weights",)
        return RowLayout(Slot, [Section(name, FLOAT64, n_scores) for name in names])

    def _bind(self, slots: NDArray[np.int32], shares: Floats, n_slots: int) -> None:
        """Set the arrays, and all attributes that depend on the arrays."""
        record = self.record = self.memory[0]
        self.shares, self._table = shares, record.weights
        self.memory.own("slots", slots)
        self.memory.own("shares", shares)
        self.memory.own("losses", np.zeros(len(shares)))
        record.n_columns, record.n_lifetimes = len(slots), len(shares)
        record.has_words = int(self.has_words)
        self._table.n_rows = n_slots
        self._bind_rows()
        self._bind_scores(record.n_scores)

    def _bind_words(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the record's references to the arrays of words and to `column_squares`."""
        for name, array in arrays.items():
            self.memory.own(name, array)
        self.memory.own("word_values", np.zeros(0))
        # `n_words` is assigned last, when all arrays have this capacity.
        self.record.n_words = len(arrays["word_slots"])

    def _bind_rows(self) -> None:
        """Set the record's reference to the slots, and keep the rows alive until the next call."""
        self.chunked_rows.show(0, self._table)
        self._shown = self.chunked_rows.holder(0)

    @property
    def n_learned(self) -> int:
        """Number of samples learned."""
        return self.record.n_steps

    def _bind_scores(self, n_scores: int) -> None:
        """Allocate memory for `n_scores` scores, and write the loss."""
        self.record.n_scores = n_scores
        for name in ("scores", "gradients", "mixed"):
            self.memory.own(name, np.zeros(n_scores))
        self.scores, self.gradients = (self.memory.arrays[name] for name in ("scores", "gradients"))
        self.rule.write(self.record)
        self._in_kernel = self.record.loss != Loss.FOREIGN

    def __getstate__(self) -> dict[str, Any]:
        names = ("rule", "compiled", "memory", "shares")
        state = {name: getattr(self, name) for name in names} | {"n_steps": self.record.n_steps}
        # Leave out spare capacity.
        state["slots"] = self.slots.copy()
        state["weights"] = TableState(self.chunked_rows, [self._table.n_rows], self._slot_layout())
        if self.has_words:
            # Words after the last learned word are spare capacity, and are left out.
            arrays = self.memory.arrays
            learned = np.flatnonzero(arrays["word_counts"])
            n = int(learned[-1]) + 1 if len(learned) else 0
            state |= {name: arrays[name][:n].copy() for name in WORD_ARRAYS}
            state["column_squares"] = arrays["column_squares"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = owned(state)
        self.rule, self.compiled, self.memory = state["rule"], state["compiled"], state["memory"]
        n_steps, self.has_words = state["n_steps"], "word_slots" in state
        check_types(self, {"rule": Rule, "compiled": CompiledMap, "memory": Memory})
        if not isinstance(n_steps, (int, np.integer)):
            refuse(self, "n_steps", n_steps, "but it should be a number")
        check_number(self, "n_steps", n_steps, 0, LARGEST_SIZE)
        if self.memory.kind is not DescentWeightsRecord or len(self.memory) != 1:
            refuse(self, "memory", self.memory.kind.__name__, "but it should be of GradientDescent")
        check_number(self, "n_scores", self.memory[0].n_scores, 1, 1 << 24)
        counts, compiled = state["weights"].counts, self.compiled
        if len(counts) != 1 or counts[0] < 1:
            refuse(self, "the number of slots", counts, "but it should be 1 or more")
        n_slots, any_number = counts[0], (-math.inf, math.inf)
        arrays: dict[str, tuple[Any, ...]] = {
            "slots": (np.int32, (np.size(state["slots"]),), -n_slots, n_slots - 1),
            "shares": (np.float64, (compiled.n_lifetimes,), *any_number),
        }
        if self.has_words:
            n = (np.size(state["word_slots"]),)
            arrays |= {
                "word_slots": (np.int32, n, -n_slots, n_slots - 1),
                "word_factors": (np.float64, n, *any_number),
                "word_squares": (np.float64, n, 0.0, math.inf),
                "word_counts": (np.float64, n, 0.0, n_steps),
                "column_squares": (np.float64, (compiled.n_columns,), 0.0, math.inf),
            }
            if not compiled.reads_text:
                refuse(self, "compiled", compiled, "but words need a map that reads texts")
        check_arrays(self, arrays, state)
        for name in arrays.keys() & {"slots", "word_slots"}:
            # ~0 is invalid, because columns never share slot 0.
            shared = state[name][state[name] < 0]
            check_array(self, f"shared {name}", shared, np.int32, -n_slots, -2)
        self.chunked_rows = state["weights"].restored(self._slot_layout())
        self._bind(state["slots"], state["shares"], n_slots)
        if self.has_words:
            self._bind_words({name: state[name] for name in (*WORD_ARRAYS, "column_squares")})
        self.record.n_steps = n_steps

    @property
    def slots(self) -> NDArray[np.int32]:
        """Slots of the columns (see `DescentWeightsRecord.slots`)."""
        self.memory.settle()
        n = self.compiled.n_columns
        return grown(self.memory.arrays["slots"], n)[:n]

    def rows(self) -> Floats:
        """Return the elements of all slots, shape (slots, elements)."""
        return self.chunked_rows.rows(0, self._table.n_rows).view(np.float64)

    def add_classes(self, n_scores: int, positive: int) -> None:
        """Add scores for new classes; the single score of two classes becomes two scores."""
        old, stride = len(self.scores), self._stride
        # Of two classes, both get a copy of the single score.
        targets = [(k, start) for k in range(stride) for start in range(1 + (old == 1))]
        moves = [(2 * old * k, 2 * (n_scores * k + i), 2 * old) for k, i in targets]
        wider = self.chunked_rows.resized(2 * stride * n_scores, moves)
        if old == 1:
            # Softmax scores are halved, because their difference must equal the single score.
            for chunk in wider.chunks[0]:
                weights = chunk.view(np.float64)
                weights[:, :2] *= 0.5 if self.rule.softmax else 1.0
                weights[:, 1 - positive] *= -1.0
        self.chunked_rows = wider
        self._bind_rows()
        self._bind_scores(n_scores)

    def _make_room(self) -> None:
        """Reserve memory for the map's new columns, and for the slots that a sample may need."""
        self.memory.settle()
        compiled = self.compiled
        slots = grown(self.memory.arrays["slots"], compiled.n_columns)
        # The number of columns is written last, because the next call then completes an interrupted
        # call.
        if self.record.n_columns != len(slots):
            self.memory.own("slots", slots)
            self.record.n_columns = len(slots)
        self._bind_rows()
        n_moved = compiled.n_out + (self.record.sample.n_entries if self.has_words else 0)
        self.chunked_rows.reserve(0, self._table.n_rows + n_moved)
        self._bind_rows()

    def _see_words(self, sample: Sample) -> None:
        """Set the sample whose words kernels read; its features must have ascending indices."""
        record, n = self.record, sample.n_entries
        record.sample = sample
        n_words = sample.indices[n - 1] + 1 if n else 0
        if n_words > record.n_words:
            self.memory.settle()
            arrays = self.memory.arrays
            self._bind_words({name: grown(arrays[name], n_words) for name in WORD_ARRAYS})
        if n > len(self.memory.arrays["word_values"]):
            self.memory.own("word_values", grown(np.zeros(0), n))

    def learn(self, sample: Sample, target: float, weight: float, is_mapped: bool = False) -> int:
        """Learn a sample, and return DONE or the index of an invalid input.

        If `is_mapped`, the map already holds the sample's outputs.
        """
        rule, record = self.rule, self.record
        if self.has_words:
            self._see_words(sample)
        rate = rule.rate if rule.schedule is None else rule.rate_at(record.n_steps)
        if not self._in_kernel:
            bad = DONE if is_mapped else self.compiled.transform(sample)
            if bad == DONE:
                self._learn_output(self.compiled.outputs, 0, target, weight, rate)
            return bad
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = learning.learn_one.of()
        feature_map, outputs = self.compiled.record, self.compiled.outputs
        status = learn_one(record, feature_map, sample, outputs, is_mapped, target, weight, rate)
        if status == NO_ROOM:
            self._make_room()
            status = learn_one(record, feature_map, sample, outputs, True, target, weight, rate)
        return status

    def _learn_output(
        self, outputs: Outputs, i: int, target: float, weight: float, rate: float
    ) -> None:
        """Learn the i-th mapped sample with a loss that has no kernel.

        If the loss raises an error other than a MemoryError, the loss is called again. If the
        second call also raises an error, the sample counts as learned without a step, because the
        map may have learned the sample already. The first error is raised in both cases.
        """
        arguments, error = (outputs, i, target, weight), None
        try:
            of_words = self._find_gradients(*arguments, is_again=False)
        except MemoryError:
            raise
        except Exception as raised:
            error = raised
            of_words = self._find_gradients(*arguments, is_again=True)
        self.record.rate = rate
        learning.descend(self.record, self.compiled.record, outputs, i, Float64s.of(of_words))
        if error is not None:
            raise error

    def _find_gradients(
        self, outputs: Outputs, i: int, target: float, weight: float, is_again: bool
    ) -> Floats:
        """Write a mapped sample's gradients, and return the gradients at its words' score."""
        if self.has_words:
            learning.score_words(self.record)
            self._differentiate(target, weight, is_again)
        of_words = self.gradients.copy()
        arguments = self.record, self.compiled.record, outputs, i
        if learning.score_mapped(*arguments) == NO_ROOM:
            self._make_room()
            learning.score_mapped(*arguments)
        self._differentiate(target, weight, is_again)
        return of_words

    def _differentiate(self, target: float, weight: float, is_again: bool) -> None:
        """Write the gradients of a loss that has no kernel.

        `is_again` is True after an error. If the loss raises an error again, the gradients are 0.
        Otherwise, a signal handler raised the first error.
        """
        derive, scores = self.rule.loss.gradient, self.scores.tolist()
        targets: list[Any] = [k == target for k in range(len(scores))]
        if len(scores) == 1:
            is_binary = isinstance(self.rule.loss, optim.losses.BinaryLoss)
            targets = [bool(target) if is_binary else target]
        try:
            slopes = [derive(y_true=y, y_pred=s) for y, s in zip(targets, scores, strict=True)]
            self.gradients[:] = [weight * slope for slope in slopes]
        except MemoryError:
            raise
        except Exception:
            if not is_again:
                raise
            self.gradients[:] = 0.0

    def learn_rows(self, out: NDArray[Any], targets: Floats, weights: Floats) -> None:
        """Learn mapped samples."""
        record, feature_map, outputs = self.record, self.compiled.record, outputs_of(out)
        n, rule = len(out), self.rule
        rates = np.full(n, rule.rate)
        if rule.schedule is not None:
            rates = np.array([rule.rate_at(record.n_steps + i) for i in range(n)])
        if not self._in_kernel:
            rows = zip(targets.tolist(), weights.tolist(), rates.tolist(), strict=True)
            for i, (target, weight, rate) in enumerate(rows):
                self._learn_output(outputs[0], i, target, weight, rate)
            return
        arrays = Float64s.of(targets), Float64s.of(weights), Float64s.of(rates)
        start = 0
        while start < n:
            self._make_room()
            start = learning.learn_rows(record, feature_map, outputs[0], start, n, *arrays)

    def learn_stored(self, pool: Pool, start: int, targets: Floats, weights: Floats) -> None:
        """Learn the samples of a pool from `start` on."""
        if not self.has_words:
            super().learn_stored(pool, start, targets, weights)
            return
        n = len(targets)
        out = self.compiled.transform_stored(pool, start, start + n)
        indices, values, starts = pool.csr(start, start + n)
        entries, memory = values.astype(np.float64), Memory(Sample)
        sample = memory[0]
        for i in range(n):
            row = slice(starts[i], starts[i + 1])
            sample.n_entries = len(indices[row])
            sample.indices, sample.entries = Int32s.of(indices[row]), Float64s.of(entries[row])
            self._see_words(sample)
            mapped = slice(i, i + 1)
            self.learn_rows(out[mapped], targets[mapped], weights[mapped])

    def score(self, sample: Sample) -> tuple[int, int]:
        """Write a sample's scores; return DONE or an invalid input's index, and the best class."""
        compiled = self.compiled
        if self.has_words:
            self._see_words(sample)
        arguments = self.record, compiled.record, sample, compiled.outputs
        score_one = self._score_one
        if score_one is None:
            score_one = self._score_one = learning.score_one.of()
        scored = score_one(*arguments)
        if scored[0] == NO_ROOM:
            self._make_room()
            scored = score_one(*arguments)
        return scored

    def score_rows(self, out: NDArray[Any]) -> Floats:
        """Return the scores of mapped samples."""
        self._make_room()
        outputs, scores = outputs_of(out), np.empty((len(out), len(self.scores)))
        numbers = Float64s.of(scores.ravel())
        learning.score_rows(self.record, self.compiled.record, outputs[0], len(out), numbers)
        return scores
