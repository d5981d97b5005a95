"""Experts that predict a target, mixtures of experts, and the distribution of a mixture's error."""
