"""The isolation kernel: the paper's figures and tables, and accuracy after one pass.

The paper is Ting et al. (2021). Without a data folder, the parts that measure accuracy use
scikit-learn's digits.
"""

from .accuracy import figure5, one_pass, online, table5, table7, table8
from .speed import dual, figure4

PARTS = (online, figure4, figure5, dual, table5, table7, table8, one_pass)
