"""Mondrian trees of the whole space, which only store the regions where samples separate.

The first sample of a region is its *pivot*. On each side of the pivot in each dimension, cuts come
at the rate of one per unit of length and time, whatever else is cut. So each of the 2 D sides has
an independent process of cuts, drawn from the region's key (`regions`). The first cut between a
sample and the pivot separates them; it is Exp(|x - pivot|_1) after the region began. The part that
it cuts off the pivot's cell is another region, which begins then and is a fresh Mondrian; the first
sample there is its pivot. At time 0 the whole space is the region of the first sample.

So a tree stores 32 bytes for a sample that is the first of a region, and nothing for others: a cell
without samples costs nothing, whatever the number of features. A cell's sides are computed on
request from the cuts on all sides of the pivots on the path (`walks.reveal`). The first sample of a
region is chosen before anything is drawn there. Hence the partition is distributed like the
Mondrian of the whole space, although it depends on the samples and their order. A point where no
sample has been has the cell that it would have as the pivot of its region.

Trees may begin at an *origin* instead. It is the pivot of the whole space; the pivot of a region is
that of the region before, moved to the cut between them in the cut's dimension. So a pivot is a
function of earlier draws, and the distribution is the same. All cells are then functions of the
tree's key: no sample is stored, cells without samples are known, and counts of trees with the same
key add up (`walks.add_regions`). A tree stores each region on the path to a sample's region.

Cuts in directions are cuts along the axes of U x: trees work with the values of samples and pivots
along the directions (`regions.lift`). Volumes are those of x (`walks`).

Samples can be removed again (`walks.walk`): a region stays as long as it has samples, and its pivot
as long as the region, counted or not. Removal does not change the partition.
"""
