"""Predictions of classes and targets, numbers of cells, and anomaly scores."""
