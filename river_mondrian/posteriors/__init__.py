"""Predictions of classes and targets, feature maps to cells, and anomaly scores."""
