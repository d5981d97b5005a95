"""Experts that predict a target, their mixtures, and the distribution of a mixture's error."""
