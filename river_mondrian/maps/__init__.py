"""Feature maps for kernels: the records of samples, outputs and maps."""
