"""Exact Bayesian ridge regression on the outputs of a feature map."""
