"""What nodes have seen of the classes: of few a place for each, of many a tree of rows.

Of many classes most nodes see few, and only what is seen has a place (`SeenClass`). A node's row of
statistics has the first `N_FIRST` classes; each other row has `N_MORE`, from the word `MORE_WORD`
on. Every row has links to two others, by the next bit of a class's number, so that a class is found
in as many steps as its number has bits at most: it is in the first row on its way that had room
when it came. Rows are never given back before the tree is.

Nodes near the root have seen most classes, and a prediction spends most of its time on them. From
`PLACES_FROM` of the classes on a node has places for all, by their numbers (`Places`): they are
read without a search, in order and by vectors. Classes that come later, and for which there is no
place, are where those of other nodes are, until the node gets places anew. A sample gives places at
one node of each tree at most, so that it is known how many rows it needs.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel, separate
from ...records import Float32s, Int32s, Int64s, prefetch
from .records import AdaptiveForest, AdaptiveTree
from .statistics import (
    GROWTHS,
    HEAD_WORDS,
    LANES,
    LARGEST_UNIT,
    LINKS_WORD,
    MORE_WORD,
    N_FIRST,
    N_FORGETTING,
    N_LINKS,
    N_MORE,
    PLACES_FROM,
    SEEN_WORDS,
    SIDE_BITS,
    STOP_WORDS,
    UNNOTICED,
    ClassNumbers,
    Places,
    SeenClass,
    Statistics,
    bit_of_side,
)

# The side of a sample that ends at a node.
NO_SIDE = -1


@inlined
def new_row(forest: AdaptiveForest, tree: AdaptiveTree) -> int:
    """Return the number of a new row, all of whose words are 0."""
    number = tree.side_rows.n_rows
    tree.side_rows.n_rows = number + 1
    words = Int32s(tree.side_rows.row(number), 0, forest.statistics_words)
    for w in range(forest.statistics_words):
        words[w] = 0
    return number


@inlined
def seen_at(row: Statistics, first: int, i: int) -> SeenClass:
    """Return the i-th class of a row, whose classes begin at a word."""
    return SeenClass(row, first + SEEN_WORDS * i)


@inlined
def _at_place(tree: AdaptiveTree, places: Places, label: int) -> SeenClass:
    """Return what is at a class's place."""
    return SeenClass(tree.side_rows.row(places.row_of(label)), MORE_WORD + label % LANES)


@separate
def find(
    forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics, label: int
) -> SeenClass:
    """Return what a node has seen of one of many classes: of a new one, nothing."""
    places = statistics.places()
    if places.has(label):
        return _at_place(tree, places, label)
    row, first, n, bits = statistics, HEAD_WORDS, N_FIRST, label
    while True:
        for i in range(n):
            seen = seen_at(row, first, i)
            if seen.label() == label:
                return seen
            if seen.key == 0:
                return forest.nothing[0]
        link = row.links()[bits & 1]
        if link == 0:
            return forest.nothing[0]
        row, first, n, bits = tree.side_rows.row(link - 1), MORE_WORD, N_MORE, bits >> 1


@separate
def place_of(
    forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics, label: int
) -> SeenClass:
    """Return what a node has seen of one of many classes, with a place for a new one."""
    places = statistics.places()
    if places.has(label):
        seen = _at_place(tree, places, label)
        if seen.key == 0:
            seen.key = (label + 1) << SIDE_BITS
        return seen
    row, first, n, bits = statistics, HEAD_WORDS, N_FIRST, label
    while True:
        for i in range(n):
            seen = seen_at(row, first, i)
            if seen.key == 0:
                seen.key = (label + 1) << SIDE_BITS
            if seen.label() == label:
                return seen
        links = row.links()
        link = links[bits & 1]
        if link == 0:
            link = new_row(forest, tree) + 1
            links[bits & 1] = link
        row, first, n, bits = tree.side_rows.row(link - 1), MORE_WORD, N_MORE, bits >> 1


@inlined
def numbers_of(
    forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics, label: int
) -> ClassNumbers:
    """Return the weights of a class at a node."""
    if forest.is_sparse == 1:
        return find(forest, tree, statistics, label).numbers(statistics.step_of(label))
    return statistics.numbers_of(label)


@inlined
def fetch_class(
    forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics, label: int
) -> None:
    """Ask for the memory of what a node has seen of one of many classes ahead of its use."""
    places = statistics.places()
    if places.has(label):
        prefetch(_at_place(tree, places, label), LANES * (1 + N_FORGETTING) + 1)
        return
    link = statistics.links()[label & 1]
    if link != 0:
        prefetch(tree.side_rows.row(link - 1), LINKS_WORD + N_LINKS)


@inlined
def sides_of(forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics, label: int) -> int:
    """Return the bits of the sides on which a class has gone at a node."""
    if forest.is_sparse == 1:
        return find(forest, tree, statistics, label).key & 3
    return statistics.sides_of(label, forest.class_capacity)


@inlined
def follow(forest: AdaptiveForest, tree: AdaptiveTree, row: Statistics, owner: int, n: int) -> int:
    """Write the rows to which one is linked behind `n` in `found`; returns how many are there.

    They are of the node that `owner` names.
    """
    links = row.links()
    for bit in range(N_LINKS):
        if links[bit] != 0:
            following = tree.side_rows.row(links[bit] - 1)
            # It is read after all those that are waiting.
            prefetch(following, LINKS_WORD + N_LINKS)
            forest.found[n].row = following
            forest.found[n].owner = owner
            n += 1
    return n


@inlined
def _list_places(tree: AdaptiveTree, places: Places, n_classes: int, labels: Int64s) -> int:
    """Write the classes that are at their places; returns how many there are."""
    total = 0
    for i in range(0, min(places.n_classes(), n_classes), LANES):
        keys = Int32s(tree.side_rows.row(places.row_of(i)), MORE_WORD, LANES)
        for k in range(LANES):
            if keys[k] != 0:
                labels[total] = i + k
                total += 1
    return total


@separate
def list_seen(forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics) -> int:
    """Write the classes of a node into `seen_labels`; returns how many there are.

    Where there are few classes these are all; some may not have been seen.
    """
    labels = forest.seen_labels
    if forest.is_sparse == 0:
        for k in range(forest.n_classes):
            labels[k] = k
        return forest.n_classes
    row, first, n = statistics, HEAD_WORDS, N_FIRST
    at, end = 0, 0
    total = _list_places(tree, statistics.places(), forest.n_classes, labels)
    while True:
        end = follow(forest, tree, row, 0, end)
        for i in range(n):
            seen = seen_at(row, first, i)
            if seen.key == 0:
                break
            if seen.key > 0:
                labels[total] = seen.label()
                total += 1
        if at == end:
            return total
        row, first, n = tree.side_rows.known(forest.found[at].row), MORE_WORD, N_MORE
        at += 1


@inlined
def _note_side(statistics: Statistics, seen: SeenClass, side: int) -> None:
    """Note on which side of a node's cut a class of many has gone."""
    bit = bit_of_side(side)
    if seen.key & bit == 0:
        seen.key = seen.key | bit
        statistics.n_sides = statistics.n_sides + 1


@inlined
def add_side(
    forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics, label: int, side: int
) -> None:
    """Note on which side of a node's cut a class has gone."""
    if forest.is_sparse == 0:
        statistics.add_side(label, side, forest.class_capacity)
        return
    _note_side(statistics, place_of(forest, tree, statistics, label), side)


@separate
def _rescale(
    forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics, m: int, unit: float
) -> None:
    """Let the unit of a memory that forgets be 1 again."""
    n, labels = list_seen(forest, tree, statistics), forest.seen_labels
    for i in range(n):
        numbers = numbers_of(forest, tree, statistics, labels[i])
        place = (1 + m) * numbers.step
        seen = numbers.words[place] / unit
        numbers.words[place] = seen if seen > UNNOTICED else 0.0
    statistics.totals[m] = statistics.totals[m] / unit


@inlined
def add_sample(
    forest: AdaptiveForest,
    tree: AdaptiveTree,
    statistics: Statistics,
    label: int,
    weight: float,
    forgets: bool,
    side: int,
) -> None:
    """Add a sample's class and weight to the memories of a node.

    It goes to a side of the node's cut; NO_SIDE stands for a leaf.
    """
    if forest.is_sparse == 1:
        seen = place_of(forest, tree, statistics, label)
        if side != NO_SIDE:
            _note_side(statistics, seen, side)
        numbers = seen.numbers(statistics.step_of(label))
    else:
        if side != NO_SIDE:
            statistics.add_side(label, side, forest.class_capacity)
        numbers = statistics.numbers_of(label)
    words = numbers.words
    count = words[0]
    if count == 0.0:
        statistics.n_seen = statistics.n_seen + 1
    words[0] = count + weight
    statistics.weight = statistics.weight + weight
    for m in range(N_FORGETTING):
        unit = statistics.units[m]
        if forgets:
            unit *= GROWTHS[m]
        if unit * max(weight, 1.0) > LARGEST_UNIT:
            _rescale(forest, tree, statistics, m, unit)
            unit = 1.0
        statistics.units[m] = unit
        place = (1 + m) * numbers.step
        words[place] = words[place] + unit * weight
        statistics.totals[m] = statistics.totals[m] + unit * weight


@inlined
def _copy_numbers(numbers: ClassNumbers, target: ClassNumbers) -> None:
    """Copy the weights of a class."""
    for m in range(1 + N_FORGETTING):
        target.words[m * target.step] = numbers.words[m * numbers.step]


@separate
def _clear_seen(forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics) -> None:
    """Let a node have seen no class, in rows of zeros that are not its own any more."""
    found, n_words, places = forest.found, forest.statistics_words, statistics.places()
    for i in range(0, places.n_classes(), LANES):
        words = Int32s(tree.side_rows.row(places.row_of(i)), 0, n_words)
        for w in range(n_words):
            words[w] = 0
    at, end = 0, follow(forest, tree, statistics, 0, 0)
    words = Int32s(statistics, 0, n_words)
    for w in range(HEAD_WORDS, n_words):
        words[w] = 0
    while at < end:
        row = tree.side_rows.known(found[at].row)
        end = follow(forest, tree, row, 0, end)
        words = Int32s(row, 0, n_words)
        for w in range(n_words):
            words[w] = 0
        at += 1


@inlined
def needs_places(forest: AdaptiveForest, statistics: Statistics) -> bool:
    """Tell whether a node is to have places for all of many classes, and lacks some."""
    capacity = forest.class_capacity
    lacks = statistics.places().n_classes() < capacity
    return lacks and statistics.n_seen > PLACES_FROM * capacity


@separate
def give_places(forest: AdaptiveForest, tree: AdaptiveTree, statistics: Statistics) -> None:
    """Give all of many classes places at a node, and what it has seen to these.

    There is room for as many rows.
    """
    first, n_rows = tree.side_rows.n_rows, forest.rows_of_places()
    for _ in range(n_rows):
        new_row(forest, tree)
    n, labels = list_seen(forest, tree, statistics), forest.seen_labels
    for i in range(n):
        label = labels[i]
        known = find(forest, tree, statistics, label)
        row = tree.side_rows.row(first + label // LANES)
        own = SeenClass(row, MORE_WORD + label % LANES)
        own.key = known.key
        _copy_numbers(known.numbers(statistics.step_of(label)), own.numbers(LANES))
    _clear_seen(forest, tree, statistics)
    places = statistics.places()
    places.start = -1 - first
    places.n_rows = n_rows


@separate
def _copy_seen(
    forest: AdaptiveForest, tree: AdaptiveTree, target: Statistics, below: Statistics, side: int
) -> None:
    """Copy the statistics of many classes as `Statistics.copy_from` does those of few."""
    words, known = Int32s(target, 0, HEAD_WORDS), Int32s(below, 0, HEAD_WORDS)
    for w in range(STOP_WORDS, HEAD_WORDS):
        words[w] = known[w]
    target.n_sides = target.n_seen
    n, labels = list_seen(forest, tree, below), forest.seen_labels
    for i in range(n):
        numbers = numbers_of(forest, tree, below, labels[i])
        # A class without samples has been noted on a side only.
        if numbers.words[0] > 0.0:
            own = place_of(forest, tree, target, labels[i])
            own.key = own.key | bit_of_side(side)
            _copy_numbers(numbers, own.numbers(1))


@inlined
def copy_statistics(
    forest: AdaptiveForest, tree: AdaptiveTree, target: Statistics, below: Statistics, side: int
) -> None:
    """Copy the statistics of a node above which another is put, and which is on a side of it.

    The probabilities to stop stay those of a new node.
    """
    if forest.is_sparse == 1:
        _copy_seen(forest, tree, target, below, side)
    else:
        n_words, capacity = forest.statistics_words, forest.class_capacity
        target.copy_from(below, side, n_words, forest.n_classes, capacity)


@kernel
def put_seen(
    forest: AdaptiveForest,
    t: int,
    rows: Int64s,
    labels: Int64s,
    sides: Int64s,
    numbers: Float32s,
    n: int,
) -> None:
    """Put classes into rows of statistics that are of nodes: of each its sides and weights."""
    tree = forest.trees[t]
    for i in range(n):
        seen = place_of(forest, tree, tree.side_rows.row(rows[i]), labels[i])
        seen.key = seen.key | sides[i]
        words = seen.numbers(1).words
        for m in range(1 + N_FORGETTING):
            words[m] = numbers[(1 + N_FORGETTING) * i + m]
