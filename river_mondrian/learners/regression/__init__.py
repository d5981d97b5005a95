"""Experts that predict a target, mixtures of them, and the distribution of a mixture's error."""
