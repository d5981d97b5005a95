"""Adaptive trees over targets: guided cuts, statistics along paths, residuals, and mixtures."""
