"""Mondrian trees of the whole space, which store only the regions that separate samples.

The first sample of a region is its *pivot*. On each side of the pivot in each dimension, cuts occur
at the rate of one per unit of length and time, independently of other cuts. So each of the 2 D
sides has an independent process of cuts, drawn from the region's key (`regions`). The first cut
between a sample and the pivot separates them; its time after the region's beginning is Exp(|x -
pivot|_1). The part that this cut separates from the pivot's cell is another region. It begins at
the time of the cut and is a fresh Mondrian; its first sample is its pivot. At time 0 the whole
space is the region of the first sample.

So a tree stores 32 bytes for the first sample of a region, whatever the number of features. It
stores nothing for other samples, or for cells without samples. A cell's sides are computed on
request from the cuts on all sides of the pivots on the path (`walks.reveal`). The first sample of a
region is chosen before anything is drawn in the region. Hence the partition is distributed like the
Mondrian of the whole space, although it depends on the samples and their order. In a region without
samples, a point has the cell that it would have as the region's pivot.

Trees may begin at an *origin* instead, which is the pivot of the whole space. The pivot of another
region is its parent's pivot, moved to the cut between the two regions in the cut's dimension. So a
pivot is a function of earlier draws, and the distribution is the same. All cells are then functions
of the tree's key: no sample is stored, cells without samples are known, and counts of trees with
the same key add up (`walks.add_regions`). A tree stores each region on the path to a sample's
region.

Cuts in directions are cuts along the axes of U x: trees use the values of samples and pivots along
the directions (`regions.lift`). Volumes are volumes in the space of x (`walks`).

Samples can be removed (`walks.walk`). A region is kept as long as it has samples. Its pivot is kept
as long as the region, even if that sample has been removed. Removal does not change the partition.
"""
