"""Mondrian trees: sampling in batch, online extension, and walks of samples to predict."""
