"""Posteriors of trees: predictions of classes and targets, cells, and anomaly scores."""
