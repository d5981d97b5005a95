"""Experts that predict a target, mixtures of such, and the law of a mixture's error."""
