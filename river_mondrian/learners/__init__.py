"""Learners: linear models, mixtures of experts, drift detection, sweeps over lifetimes."""
