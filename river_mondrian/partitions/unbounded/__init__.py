"""Mondrian trees of the whole space, whose true cells are revealed as samples fall into them.

The cell that a point has at time s in the Mondrian of the whole space reaches Exp(s) past the point
on each side of each dimension, independently (Equation 16 of O'Reilly and Tran 2022, in units in
which a cell is cut at the rate of its linear dimension). So a tree begins with its first sample's
cell at its lifetime. It is refined downwards as Mondrians are, and extended *upwards*, back in
time, where a sample falls outside of it (`cells.latest_face`). Hence there is no window and no
boundary effect: every cell is one of the Mondrian of the whole space.

A node has a key, and all its draws are functions of it; the keys of its children are functions of
it, too (`keys`). So cells are those that the key of the tree and the first sample determine,
whenever they are revealed, and a prediction reveals what it needs without storing it. A node is
stored once a sample falls into its cell. Only the root's cell is stored; the others follow from
the cuts on the way.

A node is a leaf, that is a cell, until the lifetime reaches the time of its cut. Where lifetimes
grow, samples are stored, each leaf heads a list of its own, and a leaf whose time has come is cut
when a sample next falls into it.
"""
