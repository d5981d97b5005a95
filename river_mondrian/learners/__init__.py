"""Learners: linear models, mixtures, drift detection, and fits at all lifetimes of a kernel."""
