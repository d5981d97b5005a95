"""Models in files that outlive versions: named columns of numbers, and no code.

`store` has `save` and `load`. A model becomes a tree of plain values and named arrays (`encoding`,
`decoding`), in which tables of rows are columns (`tables`) and classes have names of their own
(`classes`); what River, SciPy and NumPy define is in `foreign`. Both go into a file (`container`).
"""
