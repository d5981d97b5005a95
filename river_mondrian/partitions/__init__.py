"""How space is cut at random, and which cell a sample is in."""
