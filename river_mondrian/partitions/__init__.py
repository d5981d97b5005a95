"""Random partitions of space, and the cells of samples."""
