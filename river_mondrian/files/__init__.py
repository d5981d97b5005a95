"""Models in files that later versions can read: named columns of numbers, without code.

`store` has `save` and `load`. `forms` converts a model to a tree of plain values and named arrays.
`classes` has the names of classes in files, and `foreign` stores objects of River, SciPy and NumPy.
"""
