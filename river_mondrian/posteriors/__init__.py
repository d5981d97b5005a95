"""Predictions of classes and targets, feature maps with cells, and anomaly scores."""
