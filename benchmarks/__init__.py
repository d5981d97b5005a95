"""Benchmarks of the estimators; `python -m benchmarks --help` lists the options."""
