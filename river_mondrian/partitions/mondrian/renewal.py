"""Drawing trees anew under other widths, a part per sample.

One after the other the trees are drawn anew by the spare tree, which is extended by all stored
points in order (Algorithms 3 and 4), some for each sample that is learned. When it has them all it
takes the place of the tree whose turn it is. A tree that has been extended by points has the law of
one sampled with them (Lakshminarayanan et al. 2014, section 4.1), so each tree always has the exact
law for its own widths: when this happens depends on the inputs and on numbers of samples alone.

Then all trees are in the other frame, and the points' remainders, where there are, follow
(`frames`).

The timetable is that of all trees, of which a part of a forest may have some only (`parts`): in the
turn of a tree that another part has, points are counted and moved, and no tree takes them.
"""

from __future__ import annotations

from ...compiling.kernels import batch_kernel, helper, inlined, kernel
from ...records import Float64s, Int32s
from ...status import DONE
from ..splitmix import mixed, state_after
from .extension import count_walked, extend_trees, learn_point
from .frames import move, settle
from .leaves import clear_tree
from .records import (
    CLOSED,
    DRAWING,
    EMPTY,
    NEVER,
    SETTLING,
    START,
    STEADY,
    F,
    Forest,
    Tree,
)

# Points that the spare tree takes for each sample and each tree of the whole forest: so all trees
# have been drawn anew after a third as many samples as there were, at most.
TAKEN = 4

# Points that are settled for each sample.
SETTLED = 64

# Widths are looked at again when there are so many times as many samples; and renewed again, when
# there are so many times as many.
LOOK_RATIO = 1.5
RENEWAL_RATIO = 1.5


@inlined
def _begin_tree(forest: Forest) -> None:
    """Let a tree's turn begin, and the spare tree anew where that is a tree of this part."""
    forest.taken = 0
    if forest.has_frames == 0:
        # The points' values in the spare tree's column are those of another tree.
        forest.n_moved = 0
    # In a window there is no spare tree: all are built anew as they always are.
    if forest.n_slots == forest.n_trees or not forest.draws():
        return
    old, spare = forest.trees[forest.turn()], forest.trees[forest.n_trees]
    spare.root = EMPTY
    clear_tree(spare)
    spare.n_splits = 0
    spare.lifetime = old.lifetime
    # A stream of its own: what the old one draws meanwhile must not matter.
    state = state_after(old.renewal_state, 1)
    spare.renewal_state = state
    spare.random_state = mixed(state)
    spare.frame = 1 - forest.frame
    if forest.has_frames == 1:
        spare.first_value = forest.dim_capacity * spare.frame
    spare.succeed(forest, old)


@kernel
def begin(forest: F, frame: Float64s) -> None:
    """Begin to draw all trees anew in another frame: offsets and factors, shape (2, inputs)."""
    other = 1 - forest.frame
    capacity = forest.input_capacity
    for d in range(capacity):
        forest.offsets(other)[d] = frame[d]
        forest.factors(other)[d] = frame[capacity + d]
    forest.phase = DRAWING
    forest.renewed = 0
    forest.n_moved = 0
    forest.owed = 0
    forest.is_taking = 0
    forest.renewed_at_sample = forest.n_samples
    forest.next_look = NEVER
    oblique = forest.oblique
    if oblique:
        oblique.keep_means(oblique)
    _begin_tree(forest)


@kernel
def move_some(forest: F, most: int) -> None:
    """Move the next points, so many at most."""
    for p in range(forest.n_moved, min(forest.n_moved + most, forest.n_points)):
        move(forest, p)
    forest.owed = 0


@kernel
def settle_some(forest: F, most: int, next_look: int) -> None:
    """Settle the next points, so many at most; with the last one the renewal ends."""
    _settle_some(forest, most)
    if forest.taken == forest.n_points:
        forest.phase = STEADY
        forest.next_look = next_look
    forest.owed = 0


@kernel
def begin_settling(forest: F) -> None:
    """Let the points' remainders follow the trees, which are all in the other frame."""
    _begin_settling(forest)


@kernel
def begin_again(forest: F) -> None:
    """Let the spare tree begin anew, where it is being drawn: its rows are gone."""
    if forest.phase == DRAWING:
        _begin_tree(forest)
        forest.is_taking = 0


@helper
def take_points(forest: F) -> int:
    """Let the spare tree take the points for the samples that are owed.

    In the turn of another part's tree it is only noted which these are. Returns DONE, or the spare
    tree where that needs room for rows; the next call goes on.
    """
    if forest.phase != DRAWING:
        return DONE
    n, t = forest.n_points, forest.n_trees
    spare = forest.trees[t]
    if forest.is_taking == 0:
        stop = min(forest.taken + TAKEN * forest.n_all_trees * forest.owed, n)
        for p in range(forest.n_moved, stop):
            move(forest, p)
        spare.walk_point = forest.taken if forest.draws() else stop
        spare.walk_end = stop
        spare.walk_ref = START
        forest.is_taking = 1
    if spare.walk_point < spare.walk_end:
        return extend_trees(forest, t, t + 1, 1)
    return DONE


@inlined
def _swap_trees(forest: Forest, one: Tree, other: Tree) -> None:
    """Let two trees change places; what they own goes with them."""
    words, others = Int32s(one, 0, forest.tree_words), Int32s(other, 0, forest.tree_words)
    for i in range(forest.tree_words):
        kept = words[i]
        words[i] = others[i]
        others[i] = kept


@inlined
def _begin_settling(forest: Forest) -> None:
    """Let the points' remainders follow the trees, which are all in the other frame."""
    forest.phase = SETTLING
    forest.frame = 1 - forest.frame
    forest.taken = 0
    oblique = forest.oblique
    if oblique:
        oblique.change_frame(oblique)


@inlined
def _settle_some(forest: Forest, most: int) -> None:
    """Settle the next points, so many at most."""
    stop = min(forest.taken + most, forest.n_points)
    for p in range(forest.taken, stop):
        settle(forest, p)
    forest.taken = stop


@inlined
def _look_after_renewal(forest: Forest) -> int:
    """Return the number of samples at which widths are looked at once trees have been renewed."""
    then = forest.renewed_at_sample
    # In a window as many new samples matter as in all that it holds.
    return max(forest.n_samples, then + int((RENEWAL_RATIO - 1.0) * min(then, forest.window)))


@helper
def finish_owed(forest: F) -> None:
    """Do what is owed besides, once the spare tree has taken its points, and owe nothing."""
    n = forest.n_points
    if forest.phase == DRAWING:
        forest.taken = forest.trees[forest.n_trees].walk_end
        if forest.taken == n:
            if forest.draws():
                _swap_trees(forest, forest.trees[forest.turn()], forest.trees[forest.n_trees])
            forest.renewed = forest.renewed + 1
            if forest.renewed < forest.n_all_trees:
                _begin_tree(forest)
            else:
                _begin_settling(forest)
    elif forest.phase == SETTLING:
        _settle_some(forest, SETTLED * forest.owed)
        if forest.taken == n:
            forest.phase = STEADY
            forest.next_look = _look_after_renewal(forest)
    forest.is_taking = 0
    forest.owed = 0


@batch_kernel
def go_on(forest: F) -> int:
    """Do what is owed, as `take_points` and `finish_owed` do; returns as the first does."""
    status = take_points(forest)
    if status == DONE:
        finish_owed(forest)
    return status


@inlined
def learn_next(forest: Forest, inputs: Float64s, p: int) -> int:
    """Learn a sample as `learn_point` does, as point `p`, and count it where that is DONE.

    Where a tree needs room, the forest is closed until its owner has let all walks end, and has
    done what is owed.
    """
    status = learn_point(forest, inputs, p)
    if status == DONE:
        count_walked(forest)
        if forest.owed > 0:
            status = take_points(forest)
            if status == DONE:
                finish_owed(forest)
    if status >= 0:
        forest.version = CLOSED
    return status
