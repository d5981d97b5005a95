"""Mondrian trees of the whole space, which store only regions with samples.

The first sample of a region is the *pivot* of the region. In each dimension, the cuts on each side
of the pivot form a Poisson process of rate 1 in length and time. The processes of the 2 D sides in
D dimensions are independent, and are drawn from the region's key (`regions`). The time from the
region's beginning to the first cut between a sample x and the pivot is exponentially distributed
with rate |x - pivot|_1. The space that this cut separates from the pivot's cell is a new region.
The new region begins at the time of the cut, and its partition is an independent Mondrian process.
At time 0 the whole space is the region of the first sample.

A tree stores 32 bytes for each region, regardless of the number of features. A tree stores nothing
for samples that are not pivots, or for cells without samples. A cell's sides are computed when
needed, from the cuts on all sides of the pivots on the path (`walks.reveal`). The pivot of a region
is known before any cut is drawn in the region. Hence the partition is distributed like the Mondrian
process of the whole space, although it depends on the samples and their order. In a region without
samples, the cell of a point is computed as if the point were the pivot.

Alternatively, the pivot of the whole space is a given point, the *origin*. In these trees, the
pivot of any other region is the parent region's pivot, projected onto the cut between the two
regions. Each pivot is thus a function of earlier draws, and the partition has the same distribution
as in trees whose pivots are samples. All cells of these trees are functions of the tree's key and
the origin, even cells without samples. These trees store no samples. The counts of trees with the
same key and origin can be added (`walks.add_regions`). Such a tree stores each region on the path
to a sample's region.

With a matrix U of cut directions, a tree is an axis-aligned partition of the vectors U x
(`regions.lift`). Volumes are measured in the space of x (`walks`).

Samples can be removed (`walks.walk`). A region is kept as long as it has samples. The pivot is kept
as long as the region, even if the pivot has been removed as a sample. Removal does not change the
cells of the other samples.
"""
