"""Feature maps as kernels see them: what a sample, its outputs and a map are in memory."""
