"""Mondrian trees of the whole space, of which no more is stored than where samples part.

The first sample of a region is its *pivot*. On each side of the pivot in each dimension cuts come
at the rate of one per unit of length and time, whatever else is cut: what matters of them is a
process of its own for each of the 2 D sides, drawn from the region's key (`regions`). A sample is
parted from the pivot by the first cut between the two, which is Exp(|x - pivot|_1) after the region
began. What that cut parts from the pivot's cell is another region, which begins then and is a fresh
Mondrian; the first sample there is its pivot. At time 0 the whole space is the region of the first
sample.

So a tree stores 32 bytes for a sample that is the first of a region, and nothing for others: a cell
in which no sample has been costs nothing, whatever the number of features. A cell's sides follow
from the cuts on all sides of the pivots on the way (`walks.reveal`), where they are asked for. The
sample at which a region begins is chosen before anything is drawn there, hence the law is that of
the Mondrian of the whole space, while the partition depends on the samples and their order. A
point where no sample has been has the cell that it would have as the pivot of its region.

Trees may begin at an *origin* instead. It is the pivot of the whole space; the pivot of a region is
that of the region before, moved to the cut between them in the cut's dimension. So it is a function
of what was drawn before the region began, and the law is the same, while all cells are functions of
the tree's key: no sample is stored, cells where no sample has been are known, and counts of trees
with the same key add up (`walks.add_regions`). A tree stores each region on the way to a sample's.

Cuts in directions are cuts along the axes of U x: everything happens there, by the values of
samples and pivots along the directions (`regions.lift`). Volumes are those of x (`walks`).

Samples can be taken out again (`walks.walk`): a region is there as long as it has samples, and its
pivot as long as the region, counted or not. The partition does not change by it.
"""
