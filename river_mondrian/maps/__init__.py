"""Feature maps for kernels, and the records of samples, outputs and maps."""
